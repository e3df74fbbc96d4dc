#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "base/control.h"
#include "packing/instance.h"
#include "packing/placed_items.h"

namespace lowtide::packing {

/// Looks for packings no higher than a capacity by local search among partial packings. What is not
/// placed comes, one at random after the other, to the offset where what it overlaps weighs least;
/// that is ejected ("ejection chains", Glover, Discrete Applied Mathematics 1996; partial solutions
/// as of Blöchliger and Zufferey's PartialCol, Computers & Operations Research 2008). An item
/// weighs its bytes times its life, and more each time that it is ejected (the "breakout" of
/// Morris, AAAI 1993), so that no set of items pushes each other around for ever; the last few that
/// were placed are not ejected if that can be (tabu search). It proves nothing, but where buffers
/// are many it comes within a part of a percent of the bound long before a search that can.
///
/// Goes on from where it was when asked for another capacity. Deterministic. A move takes
/// O(items) of the cheapest kind: two lists, by offset and by top, are read in order.
class EjectionSearch {
 public:
  static constexpr Bytes kUnplaced = -1;

  /// Begins with a packing of all items or of some: an offset per item, or kUnplaced.
  EjectionSearch(const Instance& instance, const std::vector<Bytes>& offsets);

  /// Whether all items lie within the capacity, before the work is used up or `control` stops it.
  /// Not smaller than what a fixed item needs.
  bool pack_within(Bytes capacity, std::int64_t most_work, const Control& control);

  /// Per item; of a packing after pack_within() succeeded.
  const std::vector<Bytes>& offsets() const { return offsets_; }
  /// Placed items looked at: a deterministic stand-in for time.
  std::int64_t work() const { return work_; }

 private:
  using ItemId = PlacedItems::ItemId;

  /// Where an item of some size begins or ends to overlap a placed one, and what that costs.
  struct Event {
    Bytes at;
    double cost;
  };
  /// What was just placed is not ejected until some move, if that can be.
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
  std::vector<double> areas_;            // per item: bytes times life, of the largest
  std::vector<double> weights_, costs_;  // per item; what overlapping it costs now
  PlacedItems by_offset_, by_top_;
  std::vector<ItemId> unplaced_;
  std::vector<Safe> safe_;
  // Of find_events(), with room for all items and one: where in by_offset_ what is alive with the
  // item lies, of which there are alive_; and the events, the last beyond any offset.
  std::vector<std::int32_t> places_;
  std::size_t alive_ = 0;
  std::vector<Event> begins_, ends_;
  std::mt19937_64 random_{1};
  std::int64_t moves_ = 0;
  std::int64_t work_ = 0;
};

}  // namespace lowtide::packing
