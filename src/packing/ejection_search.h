#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "base/control.h"
#include "packing/instance.h"
#include "packing/placed_items.h"

namespace lowtide::packing {

/// Looks for a packing within a capacity by local search among partial packings. Unplaced items
/// come in random order; each goes to the offset where the overlapped items have the least total
/// weight, and ejects these items ("ejection chains", Glover, Discrete Applied Mathematics 1996;
/// partial solutions as in Blöchliger and Zufferey's PartialCol, Computers & Operations Research
/// 2008). The weight of an item is its bytes times its life; it grows with each ejection (the
/// "breakout" of Morris, AAAI 1993), so that no set of items eject each other forever. The last few
/// placed items are not ejected if possible (tabu search). It proves nothing, but with many buffers
/// it comes within a fraction of a percent of the bound long before an exact search.
///
/// A call with another capacity continues from the current state. Deterministic. A move takes
/// O(items) sequential reads of two lists, by offset and by top.
class EjectionSearch {
 public:
  static constexpr Bytes kUnplaced = -1;

  /// Starts from a full or partial packing: an offset per item, or kUnplaced.
  EjectionSearch(const Instance& instance, const std::vector<Bytes>& offsets);

  /// Searches until all items lie within the capacity (returns true), the work is used up or
  /// `control` stops it. Precondition: fixed items fit the capacity.
  bool pack_within(Bytes capacity, std::int64_t most_work, const Control& control);

  /// Per item; a full packing after pack_within() returned true.
  const std::vector<Bytes>& offsets() const { return offsets_; }
  /// Number of placed items visited: a deterministic measure of time.
  std::int64_t work() const { return work_; }

 private:
  using ItemId = PlacedItems::ItemId;

  /// The offset where an item begins or ceases to overlap a placed item, and the cost of that item.
  struct Event {
    Bytes at;
    double cost;
  };
  /// A recently placed item, not ejected before a certain move if possible.
  struct Safe {
    ItemId item;
    std::int64_t until;
  };

  void put(ItemId item, Bytes offset);
  void eject(ItemId item);
  void eject_above(Bytes capacity);
  ItemId take_any();
  void find_events(ItemId item);
  Bytes cheapest_offset(ItemId item, Bytes capacity);
  std::vector<ItemId> in_the_way(ItemId item, Bytes offset) const;
  void protect(ItemId item);
  void end_protection();

  const std::vector<Item>& items_;
  std::vector<Bytes> offsets_;           // per placed item
  std::vector<double> areas_;            // per item: bytes times life, relative to the largest
  std::vector<double> weights_, costs_;  // per item; costs_: of an overlap now
  PlacedItems by_offset_, by_top_;
  std::vector<ItemId> unplaced_;
  std::vector<Safe> safe_;
  // Results of find_events(), of size items + 1: the places in by_offset_ of the alive_ items that
  // are alive with the item; and the events, ended by one beyond any offset.
  std::vector<std::int32_t> places_;
  std::size_t alive_ = 0;
  std::vector<Event> begins_, ends_;
  std::mt19937_64 random_{1};
  std::int64_t moves_ = 0;
  std::int64_t work_ = 0;
};

}  // namespace lowtide::packing
