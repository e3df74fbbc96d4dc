#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "packing/instance.h"

namespace lowtide::packing {

/// A packing without addresses: only the order of items from bottom to top. Each item lies as low
/// as the items below it allow: items above a removed one sink, items above an inserted one rise,
/// so separate holes become one. This is the disjunctive graph of scheduling (Roy and Sussmann,
/// 1964): items are the tasks, offsets their starts, bytes their durations; items that are alive
/// together must not overlap. Precondition: no fixed offsets and no alignments.
class Stacking {
 public:
  using ItemId = std::int32_t;

  /// An item in the order from the bottom up, which is the order of offsets.
  struct Level {
    std::int32_t first, last;  ///< cliques
    Bytes top;                 ///< offset and bytes
    Bytes reach;               ///< from its offset to the top of the pile on it
    ItemId id;
  };

  /// Stacks the items in the order of the given offsets.
  Stacking(const Instance& instance, const std::vector<Bytes>& offsets);

  /// Stacks all items again, in the order of these offsets. O(items log items).
  void stack(const std::vector<Bytes>& offsets);

  /// Removes an item and returns its place; insert() there restores the old order.
  std::size_t remove(ItemId item);
  /// Inserts an item above the first `place` levels and below the others.
  void insert(ItemId item, std::size_t place);
  /// Updates offsets, reaches and levels after calls of remove() and insert().
  void settle();

  const std::vector<Level>& levels() const { return levels_; }
  Bytes offset(ItemId item) const { return offsets_[item]; }
  const std::vector<Bytes>& offsets() const { return offsets_; }
  Bytes height() const { return height_; }
  /// Number of visits of an item or of a contact of two: a deterministic measure of time.
  std::int64_t work() const { return work_; }

 private:
  /// The next item above or below over a range of cliques; kNone for none.
  struct Contact {
    std::int32_t first, last;
    ItemId item;
  };
  using Contacts = std::vector<Contact>;  // in order of time, for the whole life of an item
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
  std::vector<Bytes> offsets_, reaches_;            // per item
  std::vector<Contacts> below_, above_;             // per item
  std::vector<char> offset_is_old_, reach_is_old_;  // per item
  std::vector<Level> levels_;
  std::size_t first_changed_ = 0, end_changed_ = 0;  // range of changed levels
  Bytes height_ = 0;
  std::int64_t work_ = 0;
  Contacts scratch_;
  std::vector<Contact> open_, still_open_;
};

}  // namespace lowtide::packing
