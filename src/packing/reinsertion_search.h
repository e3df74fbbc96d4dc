#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "base/control.h"
#include "packing/instance.h"
#include "packing/stacking.h"

namespace lowtide::packing {

/// Lowers a packing by local search among stackings. A move takes an item out of a pile that is too
/// high, and puts it back where the highest pile through it is lowest, or a little higher. As in a
/// job shop, this height is known for every place before the move: the pile below, the item, and
/// the pile above (Mastrolilli and Gambardella, "Effective neighbourhood functions for the flexible
/// job shop problem", Journal of Scheduling 2000). With many different sizes hardly any hole fits
/// an item; here the items around it move. After many moves without a lower packing, a walk starts
/// again at the lowest packing. It proves nothing. Deterministic. A move takes O(items).
class ReinsertionSearch {
 public:
  /// Whether the search applies: no item has a fixed offset or an alignment.
  static bool can_search(const Instance& instance);

  /// Starts from a packing: an offset per item.
  ReinsertionSearch(const Instance& instance, const std::vector<Bytes>& offsets);

  /// Continues from another packing.
  void start_from(const std::vector<Bytes>& offsets);
  /// Lowers the packing until it is within `capacity`, the work is used up or `control` stops it.
  void lower(Bytes capacity, std::int64_t most_work, const Control& control);

  /// The lowest packing so far.
  const std::vector<Bytes>& offsets() const { return offsets_; }
  Bytes height() const { return height_; }
  /// Number of items visited: a deterministic measure of time.
  std::int64_t work() const { return work_ + stacking_.work(); }

 private:
  using ItemId = Stacking::ItemId;

  /// A place for an item, and the resulting height of the highest pile through the item.
  struct Gap {
    std::size_t place;
    Bytes height;
  };

  void begin_walk();
  void keep();
  void find_critical(Bytes target);
  ItemId choose();
  void find_gaps(ItemId item);
  Bytes lowest_other_gap(ItemId item);
  std::size_t choose_gap(Bytes target);
  void move(ItemId item, Bytes target);

  const Instance& instance_;
  Stacking stacking_;
  std::vector<Bytes> offsets_;
  Bytes height_;
  std::vector<std::int64_t> safe_until_;  // per item: stays until this move
  std::vector<ItemId> critical_;
  std::vector<Gap> gaps_;
  std::mt19937_64 random_{1};
  double heat_ = 0;  ///< relative to the height: see kColdest
  std::int64_t moves_ = 0, last_gain_ = 0;
  std::int64_t work_ = 0;
};

}  // namespace lowtide::packing
