#include "support/brute_force.h"

#include <algorithm>
#include <cstdint>

#include "plan/in_place.h"
#include "plan/lower.h"

namespace lowtide::testing {

std::vector<remat::Event> allowed_events(const remat::StageGraph& graph) {
  std::vector<remat::Event> events;
  for (int t = 0; t < graph.num_stages(); ++t) {
    for (int i = 0; i < t && i < graph.end(); ++i) {
      if (graph.may_rerun(i, t)) events.push_back({t, i});
    }
  }
  return events;
}

std::vector<Candidate> all_plans(const Graph& graph, const remat::StageGraph& stages,
                                 const std::vector<remat::Event>& events) {
  std::vector<Candidate> plans;
  for (std::uint32_t set = 0; set < 1u << events.size(); ++set) {
    std::vector<remat::Event> chosen;
    for (std::size_t e = 0; e < events.size(); ++e) {
      if (set >> e & 1) chosen.push_back(events[e]);
    }
    const Plan lowered = lower(graph, remat::executions_of(stages, chosen));
    const Plan overlaid = with_in_place(graph, lowered);
    plans.push_back({lowered.cost, lowered.peak_bytes, overlaid.peak_bytes});
  }
  return plans;
}

double least_cost(const std::vector<Candidate>& plans, Bytes Candidate::* peak, Bytes budget) {
  double least = kNever;
  for (const Candidate& plan : plans) {
    if (plan.*peak <= budget) least = std::min(least, plan.cost);
  }
  return least;
}

}  // namespace lowtide::testing
