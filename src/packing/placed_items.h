#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "packing/instance.h"

namespace lowtide::packing {

/// Placed items ordered by a height, which is the offset or the top. Separate arrays, so that a
/// pass over all lives, most of the work of a local search, reads only the lives.
class PlacedItems {
 public:
  using ItemId = std::int32_t;

  /// O(items), mostly moves of memory.
  void insert(Bytes height, ItemId id, const Item& item);
  /// Precondition: the item is at this height.
  void erase(Bytes height, ItemId id);

  std::size_t size() const { return heights_.size(); }
  Bytes height(std::size_t place) const { return heights_[place]; }
  ItemId id(std::size_t place) const { return ids_[place]; }

  /// Writes the places of the items that are alive with `item`, in order, to `places`, whose size
  /// is at least size() + 1. Returns their number.
  std::size_t find_alive_with(const Item& item, std::span<std::int32_t> places) const;

 private:
  std::vector<Bytes> heights_;
  std::vector<std::int32_t> first_, last_;  // cliques
  std::vector<ItemId> ids_;
};

}  // namespace lowtide::packing
