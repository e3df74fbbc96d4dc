#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "packing/instance.h"

namespace lowtide::packing {

/// Placed items in order of a height of theirs, the offset or the top. Arrays side by side: a pass
/// over all lives, which is most of the work of a local search, reads nothing else.
class PlacedItems {
 public:
  using ItemId = std::int32_t;

  /// O(items), of which moving memory is most.
  void insert(Bytes height, ItemId id, const Item& item);
  /// What lies at this height.
  void erase(Bytes height, ItemId id);

  std::size_t size() const { return heights_.size(); }
  Bytes height(std::size_t place) const { return heights_[place]; }
  ItemId id(std::size_t place) const { return ids_[place]; }

  /// The places of those that are alive with the item, in order, written to the begin of `places`,
  /// which has room for size() + 1; and how many there are.
  std::size_t find_alive_with(const Item& item, std::span<std::int32_t> places) const;

 private:
  std::vector<Bytes> heights_;
  std::vector<std::int32_t> first_, last_;  // cliques
  std::vector<ItemId> ids_;
};

}  // namespace lowtide::packing
