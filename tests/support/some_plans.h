#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "remat/event_plan.h"
#include "support/brute_force.h"

namespace lowtide::testing {

/// About one in `rarity` of the events that are allowed, by the seed; in the order of
/// allowed_events().
inline std::vector<remat::Event> some_events(const remat::StageGraph& graph, std::uint64_t seed,
                                             int rarity) {
  std::mt19937_64 random(seed);
  std::vector<remat::Event> events = allowed_events(graph);
  std::erase_if(events, [&](remat::Event) { return random() % rarity != 0; });
  return events;
}

inline remat::EventPlan plan_of(const remat::StageGraph& graph,
                                const std::vector<remat::Event>& events, Bytes limit) {
  remat::EventPlan plan(graph, limit);
  remat::change_to(plan, events);
  return plan;
}

}  // namespace lowtide::testing
