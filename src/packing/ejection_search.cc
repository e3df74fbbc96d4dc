#include "packing/ejection_search.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace lowtide::packing {
namespace {

/// The increase of an item's weight by an ejection, relative to its area.
constexpr double kGrowth = 0.2;
/// A placed item is safe for at least this many moves, and at most twice as many.
constexpr std::int64_t kSafeMoves = 3;
/// kSafe exceeds the sum of all weights of items not safe, kFixed that of items not fixed.
constexpr double kSafe = 1e6, kFixed = 1e9;
/// One of this many moves, per item, goes anywhere: else a few items could cycle forever.
constexpr std::uint64_t kRandomMoves = 50;
constexpr std::int64_t kMovesPerPoll = 256;

bool is_fixed(const Item& item) { return item.fixed != Item::kFree; }

Bytes align_down(Bytes bytes, Bytes alignment) { return bytes / alignment * alignment; }

}  // namespace

EjectionSearch::EjectionSearch(const Instance& instance, const std::vector<Bytes>& offsets)
    : items_(instance.items),
      offsets_(offsets),
      places_(items_.size() + 1),
      begins_(items_.size() + 1),
      ends_(items_.size() + 1) {
  for (const Item& item : items_) {
    areas_.push_back(static_cast<double>(item.bytes) * (item.last - item.first + 1));
  }
  const double largest = *std::ranges::max_element(areas_);
  for (double& area : areas_) area /= largest;
  weights_ = areas_;
  std::vector<ItemId> placed;
  for (std::size_t i = 0; i < items_.size(); ++i) {
    costs_.push_back(is_fixed(items_[i]) ? kFixed : weights_[i]);
    (offsets[i] == kUnplaced ? unplaced_ : placed).push_back(static_cast<ItemId>(i));
  }
  // Sorted, so that each insertion is at the end.
  const auto top = [&](ItemId i) { return offsets_[i] + items_[i].bytes; };
  std::ranges::stable_sort(placed, {}, [&](ItemId i) { return offsets_[i]; });
  for (const ItemId i : placed) by_offset_.insert(offsets_[i], i, items_[i]);
  std::ranges::stable_sort(placed, {}, top);
  for (const ItemId i : placed) by_top_.insert(top(i), i, items_[i]);
}

bool EjectionSearch::pack_within(Bytes capacity, std::int64_t most_work, const Control& control) {
  const std::int64_t stop = work_ + most_work;
  eject_above(capacity);
  while (!unplaced_.empty() && work_ < stop) {
    if (++moves_ % kMovesPerPoll == 0 && control.should_stop()) break;
    end_protection();
    const ItemId item = take_any();
    find_events(item);
    const Bytes offset =
        is_fixed(items_[item]) ? items_[item].fixed : cheapest_offset(item, capacity);
    for (const ItemId other : in_the_way(item, offset)) eject(other);
    put(item, offset);
    protect(item);
  }
  return unplaced_.empty();
}

void EjectionSearch::put(ItemId item, Bytes offset) {
  offsets_[item] = offset;
  by_offset_.insert(offset, item, items_[item]);
  by_top_.insert(offset + items_[item].bytes, item, items_[item]);
}

void EjectionSearch::eject(ItemId item) {
  by_offset_.erase(offsets_[item], item);
  by_top_.erase(offsets_[item] + items_[item].bytes, item);
  std::erase_if(safe_, [&](const Safe& safe) { return safe.item == item; });
  weights_[item] += kGrowth * areas_[item];
  if (!is_fixed(items_[item])) costs_[item] = weights_[item];
  unplaced_.push_back(item);
}

void EjectionSearch::protect(ItemId item) {
  const auto more = static_cast<std::int64_t>(random_() % (kSafeMoves + 1));
  if (is_fixed(items_[item])) return;
  costs_[item] = weights_[item] + kSafe;
  safe_.push_back({item, moves_ + kSafeMoves + more});
}

void EjectionSearch::end_protection() {
  std::erase_if(safe_, [&](const Safe& safe) {
    if (safe.until >= moves_) return false;
    costs_[safe.item] = weights_[safe.item];
    return true;
  });
}

void EjectionSearch::eject_above(Bytes capacity) {
  while (by_top_.size() > 0 && by_top_.height(by_top_.size() - 1) > capacity) {
    eject(by_top_.id(by_top_.size() - 1));
  }
}

EjectionSearch::ItemId EjectionSearch::take_any() {
  std::swap(unplaced_[random_() % unplaced_.size()], unplaced_.back());
  const ItemId item = unplaced_.back();
  unplaced_.pop_back();
  return item;
}

/// Finds the offsets at which the item begins and ceases to overlap items alive with it.
void EjectionSearch::find_events(ItemId item) {
  const Item& mine = items_[item];
  const auto collect = [&](const PlacedItems& list, Bytes shift, std::vector<Event>& events) {
    alive_ = list.find_alive_with(mine, places_);
    for (std::size_t i = 0; i < alive_; ++i) {
      const auto place = static_cast<std::size_t>(places_[i]);
      events[i] = {list.height(place) - shift, costs_[list.id(place)]};
    }
    events[alive_] = {std::numeric_limits<Bytes>::max(), 0};
    // The pass over all items is vectorized.
    work_ += static_cast<std::int64_t>(list.size() / 4 + 2 * alive_);
  };
  collect(by_top_, 0, ends_);
  collect(by_offset_, mine.bytes, begins_);
}

/// Passes over the offsets in order. The sum of costs is constant between events; both ends of the
/// ranges with the least sum are candidates.
Bytes EjectionSearch::cheapest_offset(ItemId item, Bytes capacity) {
  const Bytes alignment = items_[item].alignment;
  const Bytes highest = align_down(capacity - items_[item].bytes, alignment);
  const bool anywhere = random_() % (kRandomMoves * items_.size()) == 0;
  auto begin = begins_.cbegin(), end = ends_.cbegin();
  double cost = 0, least = std::numeric_limits<double>::infinity();
  for (; begin->at < 0; ++begin) cost += begin->cost;
  Bytes best = 0;
  std::uint64_t ties = 0;
  constexpr double kSame = 1e-7;  // rounding error of sums with safe items
  const auto look_at = [&](Bytes offset) {
    if (cost < least - kSame && !anywhere) {
      ties = 0;
      least = cost;
    }
    if (random_() % ++ties == 0) best = offset;
  };
  const auto look_at_range = [&](Bytes from, Bytes to) {
    if (cost > least + kSame && !anywhere) return;
    from = align_up(from, alignment);
    to = align_down(to, alignment);
    if (from <= to) look_at(from);
    if (from < to) look_at(to);
  };

  for (Bytes from = 0;;) {
    for (; end->at <= begin->at && end->at <= highest; ++end) {
      cost -= end->cost;
      from = end->at;
    }
    look_at_range(from, std::min(begin->at, highest));
    for (; begin->at < end->at && begin->at <= highest; ++begin) cost += begin->cost;
    if (std::min(begin->at, end->at) > highest) return best;
  }
}

/// The items that would overlap, from the results of find_events().
std::vector<EjectionSearch::ItemId> EjectionSearch::in_the_way(ItemId item, Bytes offset) const {
  std::vector<ItemId> result;
  for (std::size_t i = 0; i < alive_; ++i) {
    const auto place = static_cast<std::size_t>(places_[i]);
    if (by_offset_.height(place) >= offset + items_[item].bytes) break;
    const ItemId other = by_offset_.id(place);
    if (by_offset_.height(place) + items_[other].bytes > offset) result.push_back(other);
  }
  return result;
}

}  // namespace lowtide::packing
