#include "packing/placed_items.h"

#include <algorithm>

namespace lowtide::packing {

void PlacedItems::insert(Bytes height, ItemId id, const Item& item) {
  const auto place = std::ranges::upper_bound(heights_, height) - heights_.begin();
  heights_.insert(heights_.begin() + place, height);
  first_.insert(first_.begin() + place, item.first);
  last_.insert(last_.begin() + place, item.last);
  ids_.insert(ids_.begin() + place, id);
}

void PlacedItems::erase(Bytes height, ItemId id) {
  auto place = std::ranges::lower_bound(heights_, height) - heights_.begin();
  while (ids_[place] != id) ++place;
  heights_.erase(heights_.begin() + place);
  first_.erase(first_.begin() + place);
  last_.erase(last_.begin() + place);
  ids_.erase(ids_.begin() + place);
}

/// Without branches, since about half of the items match.
std::size_t PlacedItems::find_alive_with(const Item& item, std::span<std::int32_t> places) const {
  const std::size_t end = size();
  const std::int32_t *const first = first_.data(), *const last = last_.data();
  std::int32_t* const found = places.data();
  std::size_t count = 0;
  for (std::size_t place = 0; place < end; ++place) {
    found[count] = static_cast<std::int32_t>(place);
    count += static_cast<std::size_t>((first[place] <= item.last) & (item.first <= last[place]));
  }
  return count;
}

}  // namespace lowtide::packing
