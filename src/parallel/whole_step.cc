#include "parallel/whole_step.h"

#include <algorithm>

#include "graph/residents.h"
#include "plan/in_place.h"
#include "plan/lower.h"
#include "plan/replay.h"
#include "planner/planner.h"

namespace lowtide::parallel {
namespace {

constexpr double kMicroseconds = 1e6;

/// Keep-all, or else what the default strategy finds.
std::optional<Plan> plan_of_step(const Graph& step, Bytes available, const Control& control) {
  const Plan kept = with_in_place(step, keep_all(step));
  if (kept.peak_bytes <= available) return kept;
  Control limited(control, kWholeStepSeconds);
  return planner::plan_within(step, strategy::default_strategy(), available, {}, limited).plan;
}

std::vector<estimate::Part> parts_of(const Graph& step, const Plan& plan) {
  std::vector<estimate::Part> parts;
  Bytes residents = 0;
  for (const ResidentBytes& kind : residents_by_kind(step)) {
    estimate::add_to(parts, kind.what, kind.bytes);
    residents += kind.bytes;
  }
  estimate::add_to(parts, "activations and gradients", plan.peak_bytes - residents);
  return parts;
}

double planned_seconds(const Graph& step, const Plan& plan, Phase phase) {
  double cost = 0;
  for (const Action& action : plan.actions) {
    const bool is_run = action.verb == Verb::run;
    const bool updates = is_run && step.op(action.index).phase == Phase::optimizer;
    if (is_run && updates == (phase == Phase::optimizer)) cost += step.op(action.index).cost;
  }
  return cost / kMicroseconds;
}

}  // namespace

bool runs_whole_step(const LayeredModel& model, const Placement& placement) {
  return model.whole_step != nullptr && placement.pipeline.stages == 1 && placement.tensor == 1 &&
         placement.pipeline.micro_batches == 1 && placement.sharding.stage == 0;
}

std::optional<PlacementReport> whole_step_report(const LayeredModel& model, const Cluster& cluster,
                                                 const PlacementReport& by_units,
                                                 const Control& control) {
  PlacementReport report = by_units;
  report.step_seconds = 0;
  report.most_memory_bytes = 0;
  for (RankReport& ranks : report.ranks) {
    const NodeKind& kind = cluster.kinds[static_cast<std::size_t>(ranks.node_kind)];
    const Graph step = model.whole_step(report.placement.micro_batch, kind.device);
    const std::optional<Plan> plan = plan_of_step(step, kind.memory_bytes, control);
    if (!plan) return std::nullopt;
    ranks.available_bytes = kind.memory_bytes;
    ranks.memory = parts_of(step, *plan);
    ranks.memory_bytes = plan->peak_bytes;
    const double kept = keep_all_reference(step).cost / kMicroseconds;
    ranks.rerun_seconds = std::max(0.0, plan->cost / kMicroseconds - kept);
    ranks.compute_seconds = planned_seconds(step, *plan, Phase::forward);
    ranks.update_seconds = planned_seconds(step, *plan, Phase::optimizer);
    ranks.plans.clear();
    report.step_seconds =
        std::max(report.step_seconds,
                 ranks.compute_seconds + ranks.communication_seconds + ranks.update_seconds);
    report.most_memory_bytes = std::max(report.most_memory_bytes, ranks.memory_bytes);
  }
  for (RankReport& ranks : report.ranks) {
    ranks.waiting_seconds = report.step_seconds - ranks.compute_seconds -
                            ranks.communication_seconds - ranks.update_seconds;
  }
  report.flop_utilisation *= by_units.step_seconds / report.step_seconds;
  return report;
}

}  // namespace lowtide::parallel
