#include "largest/plan_size.h"

#include <fmt/format.h>

#include <utility>

#include "base/error.h"
#include "planner/does_not_fit.h"
#include "planner/realize.h"
#include "planner/transfer.h"

namespace lowtide::largest {
namespace {

/// The known plan, for this size; nothing where it does not do.
std::optional<planner::Planned> taken_over(const Graph& graph, const PlannedSize& known,
                                           Bytes budget, double limit) {
  std::optional<Plan> plan = planner::transfer(graph, known.graph, *known.planned.plan, budget);
  if (!plan || plan->cost > limit) return std::nullopt;
  planner::Planned planned = planner::nothing_planned(graph, budget);
  planned.outcome = strategy::Outcome::feasible;
  planned.plan = std::move(plan);
  return planned;
}

std::string too_slow(const planner::Planned& planned, double limit) {
  const std::optional<double> least = planned.least_overhead();
  return fmt::format(
      "the fastest plan found takes {:.1f}% more time than one that keeps every value{}, more than "
      "the {:.1f}% that are allowed",
      100 * planned.overhead(),
      least ? fmt::format(" (lower bound {:.1f}%)", 100 * *least) : std::string(),
      100 * (limit / planned.keep_all_cost - 1));
}

std::string too_little_memory(const planner::Planned& planned, Bytes reserved_bytes) {
  const char* none = "no plan was found in its part of the time limit";
  if (!planned.smallest_budget) return none;
  return fmt::format("{}; the smallest budget found is {}", none,
                     planner::in_full(*planned.smallest_budget + reserved_bytes));
}

/// What came of the planning.
void judge(PlannedTrial& tried, const Question& question, const Graph& graph, Bytes reserved_bytes,
           double limit) {
  const planner::Planned& planned = tried.planned;
  Trial& trial = tried.trial;
  if (!planned.plan) {
    if (planned.smallest_budget) trial.smallest_budget = *planned.smallest_budget + reserved_bytes;
    trial.why_not = too_little_memory(planned, reserved_bytes);
    tried.refusal = std::make_exception_ptr(planner::DoesNotFit(graph, planned));
    return;
  }
  trial.overhead = planned.overhead();
  trial.fits = planned.plan->cost <= limit;
  if (trial.fits) return;
  trial.why_not = too_slow(planned, limit);
  tried.refusal = refusal(question, trial);
}

}  // namespace

std::exception_ptr refusal(const Question& question, const Trial& trial) {
  const bool limits_time = question.extra.kind != ExtraTime::Kind::any;
  return std::make_exception_ptr(InfeasibleError(
      fmt::format("a {} of {} does not fit: {}. Raise --budget{}.", question.what, trial.size,
                  trial.why_not, limits_time ? " or --extra-time" : "")));
}

PlannedTrial plan_size(const Question& question, std::int64_t size, const Graph& graph,
                       Bytes reserved_bytes, const PlannedSize* known, double seconds) {
  const double limit = cost_limit(graph, question.extra);
  const Bytes budget = question.budget_bytes - reserved_bytes;
  PlannedTrial tried;
  tried.trial.size = size;
  std::optional<planner::Planned> same;
  if (known != nullptr) same = taken_over(graph, *known, budget, limit);
  if (same) {
    tried.planned = *std::move(same);
  } else {
    Control control(seconds, question.listener);
    tried.planned = planner::plan_within(graph, *question.strategy, budget,
                                         question.strategy_options, control, reserved_bytes);
    tried.used_seconds = control.used_seconds();
    if (!tried.planned.plan && Control::stop_requested()) {
      throw StoppedError("stopped while planning.");
    }
  }
  judge(tried, question, graph, reserved_bytes, limit);
  return tried;
}

}  // namespace lowtide::largest
