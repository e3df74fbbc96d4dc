#include "strategy/search/evictions.h"

#include <algorithm>
#include <iterator>

#include "strategy/dtr/simulation.h"

namespace lowtide {

std::vector<std::vector<Event>> evictions(const StageGraph& graph, Bytes limit,
                                          const Control& control) {
  constexpr double kMostCost = 6;  // times that of a step without reruns
  std::vector<std::vector<Event>> plans;
  for (bool drop : {false, true}) {
    const auto executions = simulate(graph,
                                     {.heuristic = Heuristic::ahead,
                                      .limit = limit,
                                      .most_cost = kMostCost * graph.required_cost(),
                                      .drop_remade = drop},
                                     control);
    if (executions) plans.push_back(events_of(graph, *executions));
  }
  return plans;
}

std::vector<std::vector<Event>> leaner_evictions(const StageGraph& graph, const Control& control) {
  std::vector<std::vector<Event>> plans;
  lower_limit(keep_all_peak(graph), control, [&](Bytes limit) {
    std::vector<std::vector<Event>> found = evictions(graph, limit, control);
    const bool any = !found.empty();
    std::ranges::move(found, std::back_inserter(plans));
    return any;
  });
  return plans;
}

}  // namespace lowtide
