#include "packing/reinsertion_search.h"

#include <algorithm>
#include <bit>
#include <limits>

namespace lowtide::packing {
namespace {

/// A move takes the most promising of this many critical items.
constexpr int kCandidates = 4;
/// A reinserted item stays for at least this many moves, and at most twice as many.
constexpr std::int64_t kSafeReinsertions = 3;
/// A walk ends after this many moves without a lower packing.
constexpr std::int64_t kPatienceInMoves = 10'000;
/// The target of a move is lower by 1/kStep of the height; items of higher piles are critical.
constexpr Bytes kStep = 500;
/// A chosen gap may be higher than the lowest by a random part of the height, drawn per move. Its
/// mean is kColdest times 1, 2, ... 2^(kHeats - 1), drawn per walk.
constexpr double kColdest = 3e-5;
constexpr std::uint64_t kHeats = 4;
/// One of this many moves, per item, goes anywhere: else a few items could cycle forever.
constexpr std::uint64_t kRandomReinsertions = 20;
constexpr std::int64_t kReinsertionsPerPoll = 64;

}  // namespace

bool ReinsertionSearch::can_search(const Instance& instance) {
  return std::ranges::all_of(instance.items, [](const Item& item) {
    return item.fixed == Item::kFree && item.alignment == 1;
  });
}

ReinsertionSearch::ReinsertionSearch(const Instance& instance, const std::vector<Bytes>& offsets)
    : instance_(instance),
      stacking_(instance, offsets),
      offsets_(stacking_.offsets()),
      height_(stacking_.height()),
      safe_until_(instance.items.size(), 0) {}

void ReinsertionSearch::start_from(const std::vector<Bytes>& offsets) {
  stacking_.stack(offsets);
  keep();
}

void ReinsertionSearch::lower(Bytes capacity, std::int64_t most_work, const Control& control) {
  const std::int64_t stop = work() + most_work;
  while (height_ > capacity && work() < stop) {
    if (++moves_ % kReinsertionsPerPoll == 0 && control.should_stop()) break;
    if (moves_ - last_gain_ > kPatienceInMoves) begin_walk();
    const Bytes step = std::max(instance_.unit, height_ / kStep);
    const Bytes target = std::max(capacity, height_ - step);
    find_critical(target);
    move(choose(), target);
    if (stacking_.height() < height_) keep();
  }
}

void ReinsertionSearch::keep() {
  offsets_ = stacking_.offsets();
  height_ = stacking_.height();
  last_gain_ = moves_;
}

/// Starts again from the lowest packing.
void ReinsertionSearch::begin_walk() {
  stacking_.stack(offsets_);
  last_gain_ = moves_;
  heat_ = kColdest * static_cast<double>(1 << (random_() % kHeats));
}

/// Finds the items of piles that are higher than the target.
void ReinsertionSearch::find_critical(Bytes target) {
  critical_.clear();
  const auto collect = [&](bool safe_too) {
    for (const Stacking::Level& level : stacking_.levels()) {
      const Bytes through = stacking_.offset(level.id) + level.reach;
      if (through > target && (safe_too || safe_until_[level.id] < moves_)) {
        critical_.push_back(level.id);
      }
    }
  };
  collect(false);
  if (critical_.empty()) collect(true);
  work_ += static_cast<std::int64_t>(stacking_.levels().size()) / 2;
}

/// The most promising of a few random critical items.
ReinsertionSearch::ItemId ReinsertionSearch::choose() {
  ItemId best = critical_.front();
  Bytes lowest = std::numeric_limits<Bytes>::max();
  std::uint64_t ties = 0;
  for (int i = 0; i < kCandidates; ++i) {
    const ItemId item = critical_[random_() % critical_.size()];
    find_gaps(item);
    const Bytes height = lowest_other_gap(item);
    if (height < lowest) ties = 0;
    if (height <= lowest && random_() % ++ties == 0) best = item;
    lowest = std::min(lowest, height);
  }
  return best;
}

/// Finds the gaps between items that are alive with `item`, in order of offsets.
void ReinsertionSearch::find_gaps(ItemId item) {
  const Item& mine = instance_.items[item];
  const std::vector<Stacking::Level>& levels = stacking_.levels();
  gaps_.resize(levels.size() + 1);
  std::size_t count = 0;
  Bytes below = 0;
  for (std::size_t i = 0; i < levels.size(); ++i) {
    const Stacking::Level& level = levels[i];
    if (level.last < mine.first || mine.last < level.first || level.id == item) continue;
    gaps_[count++] = {i, below};
    below = std::max(below, level.top);
  }
  gaps_[count++] = {levels.size(), below};
  gaps_.resize(count);
  Bytes above = 0;
  for (std::size_t i = count; i-- > 0;) {
    if (i + 1 < count) above = std::max(above, levels[gaps_[i].place].reach);
    gaps_[i].height += mine.bytes + above;
  }
  work_ += static_cast<std::int64_t>(levels.size() / 2 + 2 * count);
}

/// The height of the lowest gap other than the item's current one.
Bytes ReinsertionSearch::lowest_other_gap(ItemId item) {
  const std::vector<Stacking::Level>& levels = stacking_.levels();
  const Bytes offset = stacking_.offset(item);
  Bytes lowest = std::numeric_limits<Bytes>::max();
  for (std::size_t i = 0; i < gaps_.size(); ++i) {
    const bool after = i == 0 || stacking_.offset(levels[gaps_[i - 1].place].id) <= offset;
    const bool before =
        i + 1 == gaps_.size() || stacking_.offset(levels[gaps_[i].place].id) >= offset;
    if (!(after && before)) lowest = std::min(lowest, gaps_[i].height);
  }
  return lowest;
}

/// Gaps below the target count as equally good.
std::size_t ReinsertionSearch::choose_gap(Bytes target) {
  Bytes lowest = std::numeric_limits<Bytes>::max();
  for (Gap& gap : gaps_) {
    gap.height = std::max(gap.height, target);
    lowest = std::min(lowest, gap.height);
  }
  if (random_() % (kRandomReinsertions * instance_.items.size()) == 0) {
    return gaps_[random_() % gaps_.size()].place;
  }
  const int halvings = std::countr_zero(random_());
  const auto slack = static_cast<Bytes>(heat_ * halvings * static_cast<double>(height_));
  std::uint64_t seen = 0;
  std::size_t place = 0;
  for (const Gap& gap : gaps_) {
    if (gap.height <= lowest + slack && random_() % ++seen == 0) place = gap.place;
  }
  return place;
}

void ReinsertionSearch::move(ItemId item, Bytes target) {
  stacking_.remove(item);
  stacking_.settle();
  find_gaps(item);
  stacking_.insert(item, choose_gap(target));
  stacking_.settle();
  const auto more = static_cast<std::int64_t>(random_() % (kSafeReinsertions + 1));
  safe_until_[item] = moves_ + kSafeReinsertions + more;
}

}  // namespace lowtide::packing
