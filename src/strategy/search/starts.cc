#include "strategy/search/starts.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "strategy/search/mixture.h"

namespace lowtide::strategy::search {
namespace {

/// The first of the cheapest wanted starts; null when none is wanted.
template <class Wanted>
const Start* cheapest_of(const std::vector<Start>& starts, const Wanted& wanted) {
  const Start* cheapest = nullptr;
  for (const Start& start : starts) {
    if (!wanted(start)) continue;
    if (cheapest == nullptr || start.cost < cheapest->cost) cheapest = &start;
  }
  return cheapest;
}

}  // namespace

bool Starts::any_within(Bytes limit) const {
  return std::ranges::any_of(starts_, [&](const Start& s) { return s.peak <= limit; });
}

const Start* Starts::cheapest() const {
  return cheapest_of(starts_, [&](const Start& start) { return fits(start); });
}

bool Starts::is_small(const Start& start, Bytes budget) {
  constexpr double kRoom = 0.9;
  return static_cast<double>(start.peak) <= kRoom * static_cast<double>(budget);
}

std::vector<Start> Starts::chosen() const {
  const Start* best = &starts_.front();
  for (const Start& s : starts_) {
    if (s.rating < best->rating) best = &s;
  }
  const Start* cheapest = this->cheapest();
  const Start* smallest = nullptr;
  for (const Start& s : starts_) {
    if (fits(s) || (cheapest != nullptr && s.cost >= cheapest->cost)) continue;
    if (smallest == nullptr || s.peak < smallest->peak) smallest = &s;
  }
  std::vector<Start> result;
  for (const Start* start : {cheapest, best, smallest}) {
    if (start == nullptr) continue;
    const auto is_same = [&](const Start& other) { return other.events == start->events; };
    if (std::ranges::none_of(result, is_same)) result.push_back(*start);
  }
  return result;
}

const Start* Starts::cheapest_small() const {
  const Start* small =
      cheapest_of(starts_, [&](const Start& start) { return is_small(start, budget_); });
  if (small != nullptr || starts_.empty()) return small;
  const Start& smallest = *std::ranges::min_element(starts_, {}, &Start::peak);
  return fits(smallest) ? &smallest : nullptr;
}

std::vector<const Start*> Starts::to_mix_with(const Start& smaller, Bytes limit) const {
  constexpr std::size_t kMost = 4;
  std::vector<std::pair<double, const Start*>> expected;
  for (const Start& cheaper : starts_) {
    if (cheaper.peak <= limit || cheaper.cost >= smaller.cost) continue;
    const auto share = static_cast<double>(cheaper.peak - limit) /
                       static_cast<double>(cheaper.peak - smaller.peak);
    expected.emplace_back(cheaper.cost + share * (smaller.cost - cheaper.cost), &cheaper);
  }
  std::ranges::stable_sort(expected, {}, &std::pair<double, const Start*>::first);
  expected.resize(std::min(expected.size(), kMost));
  std::vector<const Start*> result;
  for (const auto& [cost, start] : expected) result.push_back(start);
  return result;
}

std::optional<std::vector<remat::Event>> Starts::mixture_within(Bytes limit) const {
  std::optional<std::vector<remat::Event>> best;
  double least = std::numeric_limits<double>::infinity();
  for (const Start& smaller : starts_) {
    if (smaller.peak > limit) continue;
    for (const Start* cheaper : to_mix_with(smaller, limit)) {
      auto mixed = Mixture(*graph_, cheaper->events, smaller.events).within(limit);
      const double cost = mixed ? remat::cost_of(*graph_, *mixed) : least;
      if (cost >= least) continue;
      least = cost;
      best = std::move(mixed);
    }
  }
  return best;
}

}  // namespace lowtide::strategy::search
