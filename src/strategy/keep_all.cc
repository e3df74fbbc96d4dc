#include <numeric>

#include "plan/lower.h"
#include "strategy/checkpointing.h"

namespace lowtide {
namespace {

Decision decide(const PlanRequest& request) {
  std::vector<OpId> order(request.graph.num_ops());
  std::iota(order.begin(), order.end(), 0);
  const double cost = lower(request.graph, order).cost;
  Trials trials(request);
  trials.offer(std::move(order));
  Decision result = trials.decision("keep-all");
  result.lower_bound = StageGraph(request.graph).required_cost();
  // Ops that nothing needs are the only way to cost less.
  if (trials.any_fits() && cost <= *result.lower_bound) result.outcome = Outcome::optimal;
  return result;
}

}  // namespace

Strategy keep_all_strategy() {
  return {.name = "keep-all",
          .summary = "runs each op once and keeps every value until its last use",
          .guarantee = "no plan costs less",
          .paper = "what frameworks do by default",
          .options = {},
          .decide = decide};
}

}  // namespace lowtide
