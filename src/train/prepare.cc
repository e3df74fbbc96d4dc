#include "train/prepare.h"

#include <fmt/format.h>

#include <limits>

#include "base/error.h"
#include "base/machine_memory.h"
#include "bounds/budget_floor.h"
#include "runtime/executor.h"
#include "train/profile_cache.h"

namespace lowtide::train {
namespace {

constexpr Bytes kUnlimited = std::numeric_limits<Bytes>::max() / 4;

Bytes executor_bytes(const Graph& graph, const Fitting& fitting) {
  const bool reserve = fitting.overrun == runtime::ExecutorOptions::Overrun::reserve;
  return runtime::generator_state_bytes(graph) + (reserve ? fitting.reserve_bytes : 0);
}

void require_keep_all_fits(const Graph& graph) {
  const Bytes peak = keep_all_reference(graph).peak_bytes;
  if (peak <= memory_and_swap()) return;
  throw InfeasibleError(fmt::format(
      "without a budget everything is kept: that takes {}, and this machine has {}. Give --budget.",
      format_bytes(peak), format_bytes(memory_and_swap())));
}

/// To be known before anything is measured: measuring an op takes its inputs and results.
void require_room(const Graph& graph, const Fitting& fitting) {
  if (fitting.budget.empty() && fitting.strategy.empty()) return require_keep_all_fits(graph);
  if (fitting.budget.empty()) return;
  const Budget asked = parse_budget(fitting.budget);
  const Bytes* budget = std::get_if<Bytes>(&asked.value);
  if (budget == nullptr) return;  // a share of a peak that is yet to be measured
  const Division division{*budget, executor_bytes(graph, fitting)};
  if (bounds::budget_floor(graph) <= division.plan_bytes()) return;
  Control control;
  throw DoesNotFit(
      graph,
      planner::plan_within(graph, strategy::default_strategy(), division.plan_bytes(), {}, control),
      division);
}

Fitted plan_step(const Step& step, const strategy::Strategy& strategy, const Division& division,
                 const Fitting& fitting, const Control::Listener& listener) {
  Control control(fitting.planning_seconds, listener);
  return {planner::plan_within(step.graph, strategy, division.plan_bytes(),
                               fitting.strategy_options, control),
          division};
}

}  // namespace

Step prepare_step(const TrainOptions& options, const Control& control) {
  const Recipe& recipe = options.recipe;
  const Graph graph =
      models::training_graph(models::find_model(recipe.model), recipe.sizes, recipe.optimizer);
  require_room(graph, options.fitting);
  Profiled profiled =
      profile_here(graph, options.profile, control,
                   options.measure_again ? profile::Measure::again : profile::Measure::lacking);
  if (profiled.measured > 0) {
    control.report(fmt::format(
        "note: measured {} ops in {:.1f} s{}", profiled.measured, control.elapsed_seconds(),
        profiled.is_kept ? ", kept in " + profiled.file.string() : std::string()));
  }
  const KeepAll reference = keep_all_reference(profiled.graph);
  return {std::move(profiled.graph), reference};
}

Fitted fit(const Step& step, const Fitting& fitting, const Control::Listener& listener) {
  const bool limited = !fitting.budget.empty();
  const strategy::Strategy& strategy = !fitting.strategy.empty()
                                           ? strategy::find_strategy(fitting.strategy)
                                       : limited ? strategy::default_strategy()
                                                 : strategy::find_strategy("keep-all");
  const Bytes budget =
      limited ? parse_budget(fitting.budget).resolve(step.keep_all.peak_bytes) : kUnlimited;
  const Division division{budget, executor_bytes(step.graph, fitting)};
  Fitted fitted = plan_step(step, strategy, division, fitting, listener);
  if (!fitted.planned.plan) {
    if (Control::stop_requested())
      throw StoppedError("stopped while planning, before a plan was found.");
    throw DoesNotFit(step.graph, fitted.planned, division);
  }
  if (!limited)
    fitted.division.budget_bytes = fitted.plan().layout->arena_bytes + division.executor_bytes;
  return fitted;
}

namespace {

std::string why_not(const planner::Planned& planned, const Division& division) {
  if (division.executor_bytes == 0) return planned.message;
  return fmt::format(
      "{} Of the budget of {}, {} are kept for states of the random generator and the "
      "reserve.",
      planned.message, format_bytes(division.budget_bytes), format_bytes(division.executor_bytes));
}

}  // namespace

DoesNotFit::DoesNotFit(const Graph& graph, const planner::Planned& planned,
                       const Division& division)
    : InfeasibleError(why_not(planned, division)),
      smallest_budget_bytes(planned.smallest_budget),
      floor_bytes(bounds::budget_floor(graph) + division.executor_bytes) {
  if (smallest_budget_bytes) *smallest_budget_bytes += division.executor_bytes;
}

}  // namespace lowtide::train
