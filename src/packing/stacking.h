#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "packing/instance.h"

namespace lowtide::packing {

/// A packing without addresses: which item lies above which. Each lies as low as those below it
/// allow, so when one is taken out what lay on it sinks, and where one is put in what is above
/// rises: holes that are apart in address become one. This is the disjunctive graph of scheduling
/// (Roy and Sussmann, 1964): items are the tasks, offsets their starts, bytes their durations, and
/// two that are alive together must not overlap. Free offsets and no alignments only.
class Stacking {
 public:
  using ItemId = std::int32_t;

  /// An item with its place in the order from the bottom up, which is that of offsets.
  struct Level {
    std::int32_t first, last;  ///< cliques
    Bytes top;                 ///< offset and bytes
    Bytes reach;               ///< from its offset to the top of what is piled on it
    ItemId id;
  };

  /// In the order of the given offsets.
  Stacking(const Instance& instance, const std::vector<Bytes>& offsets);

  /// All anew, in the order of these offsets. O(items log items).
  void stack(const std::vector<Bytes>& offsets);

  /// Takes an item out, and returns its place, where insert() puts it back as it was.
  std::size_t remove(ItemId item);
  /// Above those of the first `place` levels that are alive with it, below the others.
  void insert(ItemId item, std::size_t place);
  /// Brings offsets, reaches and levels up to date with what was removed and inserted.
  void settle();

  const std::vector<Level>& levels() const { return levels_; }
  Bytes offset(ItemId item) const { return offsets_[item]; }
  const std::vector<Bytes>& offsets() const { return offsets_; }
  Bytes height() const { return height_; }
  /// Looks at an item or at a contact of two: a deterministic stand-in for time.
  std::int64_t work() const { return work_; }

 private:
  /// Over these cliques the next item above or below; kNone for none.
  struct Contact {
    std::int32_t first, last;
    ItemId item;
  };
  using Contacts = std::vector<Contact>;  // in order of time, over the whole life of an item
  static constexpr ItemId kNone = -1;

  static void append(Contacts& contacts, const Contact& contact);
  static void append_within(Contacts& contacts, const Contacts& from, const Contact& range);
  void replace(Contacts& contacts, ItemId item, const Contacts& by);
  void cover(Contacts& contacts, const Contact& by);
  template <typename Order>
  void find_all_contacts(Order&& order, std::vector<Contacts>& contacts);
  template <typename Levels>
  void find_contacts(ItemId item, Levels levels, Contacts& contacts);
  void touch(const Contacts& contacts, std::vector<char>& is_old);
  void settle_offsets();
  void settle_reaches();
  void sort_levels();

  const std::vector<Item>& items_;
  std::vector<Bytes> offsets_, reaches_;       // per item
  std::vector<Contacts> below_, above_;        // per item
  std::vector<char> offset_is_old_, reach_is_old_;  // per item
  std::vector<Level> levels_;
  std::size_t first_changed_ = 0, end_changed_ = 0;  // levels put in or taken out lie between
  Bytes height_ = 0;
  std::int64_t work_ = 0;
  Contacts scratch_;
  std::vector<Contact> open_, still_open_;
};

}  // namespace lowtide::packing
