#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "remat/event_plan.h"
#include "support/brute_force.h"

namespace lowtide::testing {

/// About one in `rarity` of the events that are allowed, by the seed; in the order of
/// allowed_events().
inline std::vector<Event> some_events(const StageGraph& graph, std::uint64_t seed, int rarity) {
  std::mt19937_64 random(seed);
  std::vector<Event> events = allowed_events(graph);
  std::erase_if(events, [&](Event) { return random() % rarity != 0; });
  return events;
}

inline EventPlan plan_of(const StageGraph& graph, const std::vector<Event>& events, Bytes limit) {
  EventPlan plan(graph, limit);
  change_to(plan, events);
  return plan;
}

}  // namespace lowtide::testing
