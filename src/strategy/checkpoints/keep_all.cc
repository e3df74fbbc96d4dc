#include <numeric>

#include "ordering/schedule.h"
#include "strategy/answer.h"
#include "strategy/checkpointing.h"
#include "strategy/least_order.h"

namespace lowtide::strategy {
namespace {

std::vector<OpId> given_order(const Graph& graph) {
  std::vector<OpId> order(graph.num_ops());
  std::iota(order.begin(), order.end(), 0);
  return order;
}

Decision decide_by_keep_all(const PlanRequest& request) {
  const remat::StageGraph stages(request.graph);
  const double work = request.options.at("order");
  Trials trials(request);
  trials.offer(given_order(request.graph));
  if (!trials.any_fits() && work > 0) {
    const ordering::LeastPeak least = least_order(request, stages, {.work = work}, request.control);
    trials.offer(ordering::ops_of(stages, least.stages));
  }
  Decision result = trials.decision("keep-all");
  result.lower_bound = stages.required_cost();
  // Only leaving out unneeded ops could cost less.
  if (trials.any_fits()) result.outcome = outcome_of(request.graph, result);
  return result;
}

}  // namespace

Strategy keep_all_strategy() {
  return {.name = "keep-all",
          .summary = "runs each op once and keeps every value until its last use",
          .guarantee = "no plan costs less",
          .paper = "what frameworks do by default",
          .options = {number_option("order",
                                    "work on another order of the ops, where the graph's does not "
                                    "fit; 0: none",
                                    1, {0, 1e6})},
          .decide = decide_by_keep_all};
}

}  // namespace lowtide::strategy
