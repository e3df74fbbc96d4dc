#include "planner/plan_events.h"

#include <algorithm>
#include <utility>

#include "graph/permuted.h"
#include "ordering/lower_memory_order.h"

namespace lowtide::planner {
namespace {

/// The reruns of executions of stages; nothing where events cannot say what these are.
std::optional<std::vector<remat::Event>> reruns_of(const remat::StageGraph& stages,
                                                   std::span<const OpId> executions) {
  std::vector<remat::Event> reruns = remat::events_of(stages, executions);
  const auto may_run = [&](remat::Event event) { return stages.may_rerun(event.op, event.stage); };
  if (!std::ranges::all_of(reruns, may_run)) return std::nullopt;
  if (!std::ranges::equal(remat::executions_of(stages, reruns), executions)) return std::nullopt;
  return reruns;
}

}  // namespace

PlanEvents::PlanEvents(remat::StageGraph stages, std::vector<OpId> order,
                       std::vector<remat::Event> reruns)
    : stages_(std::move(stages)), order_(std::move(order)), reruns_(std::move(reruns)) {}

std::optional<PlanEvents> PlanEvents::of(const Graph& graph, std::span<const OpId> given) {
  remat::StageGraph stages(graph);
  std::vector<OpId> executions = remat::only_stages(stages, {given.begin(), given.end()});
  std::vector<OpId> order =
      ordering::order_of(graph, stages, executions).value_or(std::vector<OpId>());
  if (!order.empty()) {
    stages = remat::StageGraph(permuted(graph, order));
    executions = mapped(executions, inverse(order));
  }
  auto reruns = reruns_of(stages, executions);
  if (!reruns) return std::nullopt;
  return PlanEvents(std::move(stages), std::move(order), std::move(*reruns));
}

std::vector<OpId> PlanEvents::executions_with(std::span<const remat::Event> reruns) const {
  std::vector<OpId> executions = remat::executions_of(stages_, reruns);
  return order_.empty() ? executions : mapped(executions, order_);
}

}  // namespace lowtide::planner
