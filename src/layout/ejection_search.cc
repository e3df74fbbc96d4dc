#include "layout/ejection_search.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace lowtide {
namespace {

/// What an ejection adds to a weight, in areas of the item.
constexpr double kGrowth = 0.2;
/// For so many moves at least, and up to twice as many, what was placed is safe.
constexpr std::int64_t kSafeMoves = 3;
/// Above the sum of any weights that are not safe; and above that of any which are not fixed.
constexpr double kSafe = 1e6, kFixed = 1e9;
/// Of so many moves per item one is to anywhere: a few items could go round for ever.
constexpr std::uint64_t kRandomMoves = 50;
constexpr std::int64_t kMovesPerPoll = 256;

bool is_fixed(const Item& item) { return item.fixed != Item::kFree; }

Bytes align_down(Bytes bytes, Bytes alignment) { return bytes / alignment * alignment; }

}  // namespace

EjectionSearch::EjectionSearch(const Instance& instance, const std::vector<Bytes>& offsets)
    : items_(instance.items), offsets_(offsets) {
  for (const Item& item : items_) {
    areas_.push_back(static_cast<double>(item.bytes) * (item.last - item.first + 1));
  }
  const double largest = *std::ranges::max_element(areas_);
  for (double& area : areas_) area /= largest;
  weights_ = areas_;
  for (std::size_t i = 0; i < items_.size(); ++i) {
    const auto item = static_cast<ItemId>(i);
    by_offset_.push_back(entry(item, offsets[i], 0));
    by_top_.push_back(entry(item, offsets[i] + items_[i].bytes, 0));
  }
  std::ranges::stable_sort(by_offset_, {}, &Entry::at);
  std::ranges::stable_sort(by_top_, {}, &Entry::at);
}

bool EjectionSearch::pack_within(Bytes capacity, std::int64_t most_work, const Control& control) {
  const std::int64_t stop = work_ + most_work;
  eject_above(capacity);
  while (!unplaced_.empty() && work_ < stop) {
    if (++moves_ % kMovesPerPoll == 0 && control.should_stop()) break;
    const ItemId item = take_any();
    const Bytes offset =
        is_fixed(items_[item]) ? items_[item].fixed : cheapest_offset(item, capacity);
    for (const ItemId other : in_the_way(item, offset)) eject(other);
    put(item, offset);
  }
  return unplaced_.empty();
}

EjectionSearch::Entry EjectionSearch::entry(ItemId item, Bytes at, std::int64_t safe_until) const {
  const Item& mine = items_[item];
  const double weight = is_fixed(mine) ? kFixed : weights_[item];
  return {at, mine.first, mine.last, weight, safe_until, item};
}

void EjectionSearch::put(ItemId item, Bytes offset) {
  const auto more = static_cast<std::int64_t>(random_() % (kSafeMoves + 1));
  const auto insert = [&](std::vector<Entry>& list, Bytes at) {
    const auto place = std::ranges::upper_bound(list, at, {}, &Entry::at);
    list.insert(place, entry(item, at, moves_ + kSafeMoves + more));
  };
  offsets_[item] = offset;
  insert(by_offset_, offset);
  insert(by_top_, offset + items_[item].bytes);
}

void EjectionSearch::eject(ItemId item) {
  const auto erase = [&](std::vector<Entry>& list, Bytes at) {
    auto place = std::ranges::lower_bound(list, at, {}, &Entry::at);
    while (place->item != item) ++place;
    list.erase(place);
  };
  erase(by_offset_, offsets_[item]);
  erase(by_top_, offsets_[item] + items_[item].bytes);
  weights_[item] += kGrowth * areas_[item];
  unplaced_.push_back(item);
}

void EjectionSearch::eject_above(Bytes capacity) {
  while (!by_top_.empty() && by_top_.back().at > capacity) eject(by_top_.back().item);
}

EjectionSearch::ItemId EjectionSearch::take_any() {
  std::swap(unplaced_[random_() % unplaced_.size()], unplaced_.back());
  const ItemId item = unplaced_.back();
  unplaced_.pop_back();
  return item;
}

/// Those of what is alive with the item. Without branches, as that is half of them.
void EjectionSearch::collect(const std::vector<Entry>& list, const Item& item, Bytes shift,
                             std::vector<Event>& events) const {
  events.resize(list.size());
  std::size_t count = 0;
  for (const Entry& entry : list) {
    events[count] = {entry.at - shift,
                     entry.weight + (entry.safe_until >= moves_ ? kSafe : 0.0)};
    count += static_cast<std::size_t>((entry.first <= item.last) & (item.first <= entry.last));
  }
  events.resize(count);
}

/// Passes the offsets in order. Just where something ends to be in the way, or just before it
/// begins to be, the sum can be least.
Bytes EjectionSearch::cheapest_offset(ItemId item, Bytes capacity) {
  const Bytes size = items_[item].bytes, alignment = items_[item].alignment;
  collect(by_offset_, items_[item], size, begins_);
  collect(by_top_, items_[item], 0, ends_);
  work_ += static_cast<std::int64_t>(2 * by_offset_.size() + 4 * begins_.size());

  const Bytes highest = align_down(capacity - size, alignment);
  const bool anywhere = random_() % (kRandomMoves * items_.size()) == 0;
  double cost = 0, least = std::numeric_limits<double>::infinity();
  Bytes best = 0;
  std::uint64_t ties = 0;
  std::size_t begun = 0, ended = 0;
  const auto look_at = [&](Bytes offset) {
    for (; ended < ends_.size() && ends_[ended].at <= offset; ++ended) cost -= ends_[ended].weight;
    for (; begun < begins_.size() && begins_[begun].at < offset; ++begun) {
      cost += begins_[begun].weight;
    }
    constexpr double kSame = 1e-7;  // what sums of safe items are uncertain by
    if (cost < least - kSame && !anywhere) {
      ties = 0;
      least = cost;
    }
    if ((cost <= least + kSame || anywhere) && random_() % ++ties == 0) best = offset;
  };

  look_at(0);
  auto before = begins_.begin();
  while (before != begins_.end() && before->at < alignment) ++before;
  for (auto after = ends_.begin(); before != begins_.end() || after != ends_.end();) {
    const Bytes below = before != begins_.end() ? align_down(before->at, alignment) : highest + 1;
    const Bytes above = after != ends_.end() ? align_up(after->at, alignment) : highest + 1;
    const Bytes offset = std::min(below, above);
    if (offset > highest) break;
    if (offset == below) ++before;
    if (offset == above) ++after;
    look_at(offset);
  }
  return best;
}

std::vector<EjectionSearch::ItemId> EjectionSearch::in_the_way(ItemId item, Bytes offset) const {
  const Item& mine = items_[item];
  std::vector<ItemId> result;
  for (const Entry& entry : by_offset_) {
    if (entry.at >= offset + mine.bytes) break;
    const bool together = entry.first <= mine.last && mine.first <= entry.last;
    if (together && entry.at + items_[entry.item].bytes > offset) result.push_back(entry.item);
  }
  return result;
}

}  // namespace lowtide
