#include "strategy/search/starts.h"

#include <algorithm>

#include "strategy/search/mixture.h"

namespace lowtide {

bool Starts::any_fits() const {
  return std::ranges::any_of(starts_, [&](const Start& s) { return fits(s); });
}

bool Starts::is_lean(const Start& start) const {
  constexpr double kRoom = 0.9;
  return static_cast<double>(start.peak) <= kRoom * static_cast<double>(budget_);
}

std::vector<Start> Starts::chosen() const {
  const Start* best = &starts_.front();
  const Start* cheapest = nullptr;
  for (const Start& s : starts_) {
    if (s.rating < best->rating) best = &s;
    if (fits(s) && (cheapest == nullptr || s.cost < cheapest->cost)) cheapest = &s;
  }
  const Start* leanest = nullptr;
  for (const Start& s : starts_) {
    if (fits(s) || (cheapest != nullptr && s.cost >= cheapest->cost)) continue;
    if (leanest == nullptr || s.peak < leanest->peak) leanest = &s;
  }
  std::vector<Start> result;
  for (const Start* start : {cheapest, best, leanest}) {
    if (start == nullptr) continue;
    const auto is_same = [&](const Start& other) { return other.events == start->events; };
    if (std::ranges::none_of(result, is_same)) result.push_back(*start);
  }
  return result;
}

const Start* Starts::cheapest_lean() const {
  const Start* cheapest = nullptr;
  for (const Start& start : starts_) {
    if (!is_lean(start)) continue;
    if (cheapest == nullptr || start.cost < cheapest->cost) cheapest = &start;
  }
  return cheapest;
}

std::optional<std::vector<Event>> Starts::mixture_within(Bytes limit) const {
  const auto cost_between = [&](const Start& cheaper, const Start& leaner) {
    const auto share = static_cast<double>(cheaper.peak - limit) /
                       static_cast<double>(cheaper.peak - leaner.peak);
    return cheaper.cost + share * (leaner.cost - cheaper.cost);
  };
  const Start* cheaper = nullptr;
  const Start* leaner = nullptr;
  for (const Start& c : starts_) {
    for (const Start& l : starts_) {
      if (c.peak <= limit || l.peak > limit || c.cost >= l.cost) continue;
      if (cheaper && cost_between(c, l) >= cost_between(*cheaper, *leaner)) continue;
      cheaper = &c;
      leaner = &l;
    }
  }
  if (cheaper == nullptr) return std::nullopt;
  return Mixture(*graph_, cheaper->events, leaner->events).within(limit);
}

}  // namespace lowtide
