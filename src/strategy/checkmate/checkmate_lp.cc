#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "plan/replay.h"
#include "solver/highs.h"
#include "strategy/answer.h"
#include "strategy/checkmate/incumbent.h"
#include "strategy/checkmate/options.h"
#include "strategy/checkmate/rounding.h"
#include "strategy/strategy.h"

namespace lowtide::strategy {
namespace {

class LpRounding {
 public:
  explicit LpRounding(const PlanRequest& request)
      : request_(request),
        stages_(request.graph),
        form_(checkmate::formulation(request.options)),
        incumbent_(request, stages_),
        bound_(stages_.required_cost()) {}

  Decision decide() {
    incumbent_.offer({});
    if (incumbent_.exists()) return answer();
    if (structural_floor(request_.graph).bytes > request_.budget_bytes) return answer();
    checkmate::refuse_too_large(request_, stages_);
    // The first relaxation is that of the budget, so its bound counts.
    constexpr int kMargins = 6;
    for (int k = 0; k <= kMargins; ++k) {
      if (request_.control.should_stop()) break;
      if (!round_with_margin(request_.options.at("margin") * k / kMargins)) break;
    }
    return answer();
  }

 private:
  /// Returns whether the relaxation has a solution. The margin is for memory that rounding adds.
  bool round_with_margin(double margin) {
    const Bytes room = request_.budget_bytes - stages_.resident_bytes();
    const Bytes aside = static_cast<Bytes>(margin * static_cast<double>(room));
    const checkmate::StageModel model(request_.graph, stages_, request_.budget_bytes - aside,
                                      form_);
    solver::SolverRequest asked;
    asked.relaxed = true;
    asked.threads = static_cast<int>(request_.options.at("threads"));
    request_.control.report(fmt::format("relaxation of {} rows, {} columns",
                                        model.program().num_rows(), model.program().num_columns()));
    const solver::Solved solved =
        solver::solve_with_highs(model.program(), asked, request_.control);
    if (aside == 0 && !solved.row_duals.empty() &&
        solved.status != solver::Solved::Status::infeasible) {
      bound_ =
          std::max(bound_, model.cost_of(solver::dual_bound(model.program(), solved.row_duals)));
    }
    if (aside == 0 && solved.status == solver::Solved::Status::infeasible) proved_ = true;
    if (solved.values.empty() || solved.status == solver::Solved::Status::infeasible) return false;
    const int thresholds = static_cast<int>(request_.options.at("thresholds"));
    for (int k = 1; k <= thresholds; ++k) {
      const auto held = [&](int t, int v) { return model.held(solved.values, t, v); };
      offer_rounded(held, static_cast<double>(k) / (thresholds + 1));
    }
    return true;
  }

  void offer_rounded(const checkmate::Held& held, double threshold) {
    incumbent_.offer(checkmate::rounded(stages_, held, threshold));
  }

  Decision answer() {
    Decision result;
    result.bound_model = checkmate::bound_model(form_);
    if (!incumbent_.exists()) offer_smallest(result);
    if (incumbent_.exists()) {
      result.executions = incumbent_.executions();
      result.lower_bound = std::min(bound_, incumbent_.cost());
      result.outcome = outcome_of(request_.graph, result);
      return result;
    }
    result.outcome = request_.control.should_stop() ? Outcome::stopped : Outcome::infeasible;
    result.message = fmt::format("no {} is within the budget; one of {} bytes is known",
                                 proved_ ? "plan" : "rounding", *result.smallest_peak);
    return result;
  }

  /// The last resort, independent of the budget, is to keep nothing. To keep everything may need
  /// less memory.
  void offer_smallest(Decision& result) {
    const auto nothing = [](int, int) { return 0.0; };
    for (const auto& events : {checkmate::rounded(stages_, nothing, 1), {}}) {
      const Bytes peak = incumbent_.offer(events);
      if (result.smallest_peak && *result.smallest_peak <= peak) continue;
      result.smallest_peak = peak;
      result.smallest_executions = remat::executions_of(stages_, events);
    }
  }

  const PlanRequest& request_;
  remat::StageGraph stages_;
  checkmate::Formulation form_;
  checkmate::Incumbent incumbent_;
  double bound_;
  bool proved_ = false;  ///< that no plan is within the budget
};

Decision decide_by_checkmate_lp(const PlanRequest& request) { return LpRounding(request).decide(); }

}  // namespace

Strategy checkmate_lp_strategy() {
  return {.name = "checkmate-lp",
          .summary = "solves the linear relaxation of checkmate's program and rounds it",
          .guarantee = "says how far from the best possible its plan is at most; may find none",
          .paper = "Jain et al.: Checkmate: Breaking the memory wall with optimal tensor "
                   "rematerialization, MLSys 2020 (two-phase rounding)",
          .options = checkmate::with_model_options(
              {number_option("margin", "share of the budget kept aside for rounding, at most", 0.3,
                             {0, 0.9}),
               integer_option("thresholds", "tried between 0 and 1, from which on a value is held",
                              9, {1, 1000}),
               integer_option("threads", "of the solver", 1, {1, 256})}),
          .decide = decide_by_checkmate_lp};
}

}  // namespace lowtide::strategy
