#include "train/prepare.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>

#include "base/error.h"
#include "base/machine_memory.h"
#include "bounds/budget_floor.h"
#include "offload/joint.h"
#include "planner/realize.h"
#include "planner/resolve.h"
#include "planner/why_not_less.h"
#include "runtime/executor.h"
#include "train/profile_cache.h"
#include "train/slower_places.h"

namespace lowtide::train {
namespace {

void require_keep_all_fits(const Graph& graph) {
  const Bytes peak = keep_all_reference(graph).peak_bytes;
  if (peak <= memory_and_swap()) return;
  throw InfeasibleError(fmt::format(
      "without a budget everything is kept: that needs {}, and this machine has {}. Give --budget.",
      format_bytes(peak), format_bytes(memory_and_swap())));
}

/// Checked before any measurement: measuring an op needs memory for its inputs and results, and any
/// plan holds these at some time. A budget that is exceeded by little is refused after it, as only
/// then it is known which budget would do.
void require_room(const Graph& graph, const MemoryOptions& options) {
  constexpr Bytes kLittle = Bytes{256} << 20;
  const planner::PlanningOptions& planning = options.planning;
  if (!planning.budget.is_limited() && planning.strategy.empty()) require_keep_all_fits(graph);
  const Bytes* budget = std::get_if<Bytes>(&planning.budget.value);
  if (budget == nullptr) return;  // a share of a peak that is not measured yet
  const Division division{*budget, executor_bytes(graph, options)};
  const bool moves = options.may_move();
  const Bytes floor =
      moves ? offload::floor_of_moves(graph, all_moves(options)) : bounds::budget_floor(graph);
  if (floor <= division.plan_bytes() + kLittle) return;
  planner::Planned planned;
  planned.budget_bytes = division.plan_bytes();
  planned.reserved_bytes = division.executor_bytes;
  planned.floor_bytes = floor;
  planned.message = fmt::format(
      "infeasible: {} What ops work in is not known yet and comes on top, as no op was run: that "
      "takes more than the budget. Where there is more memory, give a share such as 60%, and an "
      "error names the smallest budget.",
      moves ? fmt::format("Every plan needs {} at least.",
                          planner::in_full(floor + division.executor_bytes))
            : planner::why_not_less(graph, division.executor_bytes));
  throw planner::DoesNotFit(graph, planned);
}

const strategy::Strategy& strategy_of(const planner::PlanningOptions& planning) {
  const bool keeps_all = planning.strategy.empty() && !planning.budget.is_limited();
  return strategy::find_strategy_or_default(keeps_all ? "keep-all" : planning.strategy);
}

planner::Planned planned_within(const Step& step, const MemoryOptions& options,
                                const Division& division, Control& control) {
  const planner::PlanningOptions& planning = options.planning;
  if (!options.may_move()) {
    return planner::plan_within(step.graph, strategy_of(planning), division.plan_bytes(),
                                planning.strategy_options, control, division.executor_bytes);
  }
  const offload::Ways ways = offload::ways_of(planning.strategy);
  return offload::plan_with(step.graph, division.plan_bytes(), slower_of(options, control), ways,
                            control, division.executor_bytes);
}

Step prepared(const Graph& graph, const TrainOptions& options, const Control& control) {
  require_room(graph, options.memory);
  Profiled profiled =
      profile_here(graph, options.profile, control,
                   options.measure_again ? profile::Measure::again : profile::Measure::lacking);
  if (profiled.measured > 0) {
    control.report(fmt::format(
        "note: measured {} ops in {:.1f} s{}", profiled.measured, control.elapsed_seconds(),
        profiled.is_kept ? ", kept in " + profiled.file.string() : std::string()));
  }
  if (options.measure_again) measure_places_again(options.memory);
  const KeepAll reference = keep_all_reference(profiled.graph);
  return {std::move(profiled.graph), reference};
}

}  // namespace

void complete(Recipe& recipe) {
  recipe = with_defaults(recipe);
  if (recipe.threads > 0) at::set_num_threads(recipe.threads);
  recipe.threads = at::get_num_threads();
}

Bytes executor_bytes(const Graph& graph, const MemoryOptions& options) {
  const bool reserve = options.overrun == runtime::ExecutorOptions::Overrun::reserve;
  return runtime::generator_state_bytes(graph) + (reserve ? options.reserve_bytes : 0);
}

Graph bare_graph(const Recipe& recipe) { return models::training_graph(recipe); }

Step prepare_step(const TrainOptions& options, const Control& control) {
  return prepared(bare_graph(options.recipe), options, control);
}

Step prepare_pass(const TrainOptions& options, const Control& control) {
  const Recipe& recipe = options.recipe;
  const models::Model& model = models::find_model(recipe.model);
  return prepared(models::inference_graph(model, recipe.sizes, recipe.precision), options, control);
}

Fitted fit(const Step& step, const MemoryOptions& options, const Control::Listener& listener) {
  const planner::PlanningOptions& planning = options.planning;
  const Division division{planner::resolve(planning.budget, step.graph),
                          executor_bytes(step.graph, options)};
  Control control(planning.seconds, listener);
  Fitted fitted{planned_within(step, options, division, control), division};
  if (!fitted.planned.plan) {
    if (Control::stop_requested()) {
      throw StoppedError("stopped while planning, before a plan was found.");
    }
    throw planner::DoesNotFit(step.graph, fitted.planned);
  }
  Division& parts = fitted.division;
  parts.executor_bytes = fitted.planned.reserved_bytes;
  if (!planning.budget.is_limited()) {
    parts.budget_bytes = fitted.plan().layout->arena_bytes + parts.executor_bytes;
  }
  return fitted;
}

}  // namespace lowtide::train
