#include "strategy/answer.h"

#include <fmt/format.h>

#include <utility>

#include "plan/lower.h"
#include "plan/optimal.h"
#include "remat/event_plan.h"

namespace lowtide::strategy {

std::optional<Decision> keep_all_if_it_fits(const remat::StageGraph& graph, Bytes budget) {
  const remat::EventPlan keep_all(graph, budget);
  if (!keep_all.fits()) return std::nullopt;
  Decision result;
  result.outcome = Outcome::optimal;
  result.executions = remat::executions_of(graph, keep_all.events());
  result.lower_bound = graph.required_cost();
  return result;
}

Outcome outcome_of(const Graph& graph, const Decision& decision) {
  const bool is_optimal =
      decision.lower_bound &&
      is_least(lower(graph, decision.executions).cost, *decision.lower_bound);
  return is_optimal ? Outcome::optimal : Outcome::feasible;
}

Decision nothing_fits(Bytes smallest_peak, std::vector<OpId> executions, std::string_view who,
                      const Control& control) {
  Decision result;
  const bool stopped = control.should_stop();
  result.outcome = stopped ? Outcome::stopped : Outcome::infeasible;
  result.smallest_peak = smallest_peak;
  result.smallest_executions = std::move(executions);
  result.message = fmt::format("the smallest budget that {} {} is {} bytes ({})", who,
                               stopped ? "reached so far" : "can reach", smallest_peak,
                               format_bytes(smallest_peak));
  return result;
}

Decision with_bound_of(const Decision& other, Decision decision) {
  decision.lower_bound = other.lower_bound;
  decision.bound_model = other.bound_model;
  decision.certificate = other.certificate;
  return decision;
}

}  // namespace lowtide::strategy
