#include "strategy/search/evictions.h"

#include <algorithm>
#include <iterator>

#include "strategy/dtr/simulation.h"

namespace lowtide::strategy::search {

std::vector<std::vector<remat::Event>> evictions(const remat::StageGraph& graph, Bytes limit,
                                                 const Control& control) {
  constexpr double kMostCost = 6;  // times that of a step without reruns
  std::vector<std::vector<remat::Event>> plans;
  for (bool drop : {false, true}) {
    const auto executions = dtr::simulate(graph,
                                          {.heuristic = dtr::Heuristic::ahead,
                                           .limit = limit,
                                           .most_cost = kMostCost * graph.required_cost(),
                                           .drop_remade = drop},
                                          control);
    if (executions) plans.push_back(remat::events_of(graph, *executions));
  }
  return plans;
}

std::vector<std::vector<remat::Event>> smaller_evictions(const remat::StageGraph& graph,
                                                         const Control& control) {
  std::vector<std::vector<remat::Event>> plans;
  dtr::lower_limit(remat::keep_all_peak(graph), control, [&](Bytes limit) {
    std::vector<std::vector<remat::Event>> found = evictions(graph, limit, control);
    const bool any = !found.empty();
    std::ranges::move(found, std::back_inserter(plans));
    return any;
  });
  return plans;
}

}  // namespace lowtide::strategy::search
