#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "base/time_share.h"
#include "plan/replay.h"
#include "solver/highs.h"
#include "strategy/answer.h"
#include "strategy/checkmate/incumbent.h"
#include "strategy/checkmate/options.h"
#include "strategy/checkmate/refine.h"
#include "strategy/strategy.h"

namespace lowtide::strategy {
namespace {

/// A bound and a cost that differ by less are equal up to rounding.
constexpr double kSame = 1e-8;

/// Solves the model. If the solution needs more than the budget inside stages that the model does
/// not describe, describes these and solves again.
class Checkmate {
 public:
  explicit Checkmate(const PlanRequest& request)
      : request_(request),
        stages_(request.graph),
        form_(checkmate::formulation(request.options)),
        incumbent_(request, stages_),
        inside_(stages_.num_stages()),
        bound_(stages_.required_cost()) {}

  Decision decide() {
    incumbent_.offer({});
    if (incumbent_.exists()) return answer();
    if (structural_floor(request_.graph).bytes > request_.budget_bytes) {
      infeasible_ = true;
      return answer();
    }
    checkmate::refuse_too_large(request_, stages_);
    if (const double moves = request_.options.at("start"); moves > 0) start(moves);
    while (!is_optimal() && !infeasible_ && !request_.control.should_stop() && improve()) {
    }
    return answer();
  }

 private:
  /// Starts from a plan of the local search; if it finds none, from a longer search.
  void start(double thousand_moves) {
    constexpr double kShare = 0.2;  // of the time that is left
    for (const double moves : {thousand_moves, 10 * thousand_moves}) {
      const Control& whole = request_.control;
      if (incumbent_.exists() || whole.should_stop()) break;
      Control part(whole, share_of_seconds(whole, kShare));
      const Decision found = ask_search(part, moves);
      if (has_plan(found)) incumbent_.offer(remat::events_of(stages_, found.executions));
      if (found.lower_bound) bound_ = std::max(bound_, *found.lower_bound);
      if (found.outcome == Outcome::infeasible) note_smallest(found);
    }
    if (incumbent_.exists()) report("begins with a plan of the search");
  }

  /// All work of the search is in proportion to its moves.
  Decision ask_search(Control& control, double thousand_moves) const {
    const Strategy& search = find_strategy("search");
    StrategyOptions options = default_options(search);
    options["order"] = 0;  // the program keeps the graph's
    options["prove"] = 0;  // the program proves
    options["bound"] *= thousand_moves / options["moves"];
    options["moves"] = thousand_moves;
    return search.decide({request_.graph, request_.budget_bytes, options, control});
  }

  /// Makes one solve. Returns whether another may find or prove more.
  bool improve() {
    const checkmate::StageModel model(request_.graph, stages_, model_budget_, form_, inside_);
    solver::SolverRequest asked;
    asked.gap = request_.options.at("gap");
    asked.threads = static_cast<int>(request_.options.at("threads"));
    if (const double nodes = request_.options.at("nodes"); nodes > 0) {
      asked.most_nodes = static_cast<std::int64_t>(nodes);
    }
    if (incumbent_.exists()) asked.start = checkmate::start_for(model, incumbent_.events());
    asked.on_solution = [&](std::span<const double> values) {
      incumbent_.offer(model.events_of(values));
    };
    asked.on_progress = [&](double bound, double) { note_progress(model.cost_of(bound)); };
    report(fmt::format("solving {} rows, {} columns", model.program().num_rows(),
                       model.program().num_columns()));
    const solver::Solved solved =
        solver::solve_with_highs(model.program(), asked, request_.control);
    const bool first = std::exchange(is_first_, false);
    take_bound(model.cost_of(solved.bound), first);
    if (solved.status == solver::Solved::Status::infeasible) {
      infeasible_ = !incumbent_.exists() && model_budget_ == request_.budget_bytes;
      staged_ = !first || form_ != checkmate::Formulation::ends;
      return false;
    }
    if (solved.status != solver::Solved::Status::optimal || solved.values.empty()) return false;
    return refine(model.events_of(solved.values));
  }

  /// For an optimum of the model. Returns whether it is no plan and a refined model excludes it.
  bool refine(const std::vector<remat::Event>& events) {
    const Bytes over = incumbent_.offer(events) - request_.budget_bytes;
    if (over <= 0) {
      if (!is_optimal(bound_)) {
        report("note: no plan that runs each op at most once between two first runs costs less");
      }
      return false;
    }
    const bool more = form_ == checkmate::Formulation::ends &&
                      checkmate::describe_overfull(stages_, events, request_.budget_bytes, inside_);
    if (more) return true;
    // The model omits small values, and the solver has a tolerance: lower the budget once by that.
    const bool again = model_budget_ == request_.budget_bytes;
    model_budget_ = request_.budget_bytes - over;
    return again;
  }

  /// The first model's bound holds for every plan of its rules; one with more stages described, for
  /// plans that run each op at most once in a stage. A model for less memory gives no bound.
  void take_bound(double bound, bool is_first) {
    constexpr double kRounding = 1e-9;
    if (!std::isfinite(bound) || model_budget_ != request_.budget_bytes) return;
    double& kept = is_first ? bound_ : staged_bound_;
    kept = std::max(kept, bound * (1 - kRounding));
  }

  void note_progress(double bound) {
    take_bound(bound, is_first_);
    const double now = request_.control.elapsed_seconds();
    if (now < next_report_) return;
    constexpr double kSeconds = 0.2;
    next_report_ = now + kSeconds;
    report(fmt::format("bound {:.3f}%", percent(std::max(bound, bound_))));
  }

  bool is_optimal() const { return is_optimal(bound_) || is_optimal(staged_bound_); }
  bool is_optimal(double bound) const {
    return incumbent_.exists() && incumbent_.cost() <= bound * (1 + kSame);
  }

  Decision answer() {
    Decision result;
    result.bound_model = checkmate::bound_model(form_);
    if (incumbent_.exists()) {
      result.executions = incumbent_.executions();
      const bool staged = is_optimal() && !is_optimal(bound_);
      if (staged) result.bound_model = checkmate::bound_model(checkmate::Formulation::strong);
      result.lower_bound = std::min(staged ? staged_bound_ : bound_, incumbent_.cost());
      result.outcome = outcome_of(request_.graph, result);
      return result;
    }
    if (!infeasible_ && request_.control.should_stop()) {
      result.outcome = Outcome::stopped;
      result.message = "stopped before a plan within the budget was found";
      return result;
    }
    if (!smallest_peak_) find_smallest();
    if (incumbent_.exists()) return answer();
    result.outcome = Outcome::infeasible;
    result.smallest_peak = smallest_peak_;
    result.smallest_executions = smallest_executions_;
    result.message = fmt::format("{} within the budget; one of {} bytes is known", what_is_known(),
                                 *result.smallest_peak);
    return result;
  }

  /// The descent of the search, in the time limit once more. It may even end within the budget.
  void find_smallest() {
    Control again = request_.control.renewed();
    const Decision found = ask_search(again, 0);
    if (has_plan(found)) incumbent_.offer(remat::events_of(stages_, found.executions));
    note_smallest(found);
    if (smallest_peak_) return;
    smallest_peak_ = incumbent_.offer({});
    smallest_executions_ = remat::executions_of(stages_, {});
  }

  void note_smallest(const Decision& found) {
    smallest_peak_ = found.smallest_peak;
    smallest_executions_ = found.smallest_executions;
  }

  std::string_view what_is_known() const {
    if (!infeasible_) return "no plan was found";
    return staged_ ? "no plan that runs each op at most once between two first runs is"
                   : "no plan is";
  }

  double percent(double cost) const { return 100 * (cost / stages_.required_cost() - 1); }

  void report(const std::string& what) const {
    const std::string best =
        incumbent_.exists() ? fmt::format("plan {:.3f}%, ", percent(incumbent_.cost())) : "";
    request_.control.report(fmt::format("{}{}", best, what));
  }

  const PlanRequest& request_;
  remat::StageGraph stages_;
  checkmate::Formulation form_;
  checkmate::Incumbent incumbent_;
  std::vector<bool> inside_;
  Bytes model_budget_ = request_.budget_bytes;
  double bound_;
  double staged_bound_ = 0;  ///< on plans that run each op at most once in a stage
  double next_report_ = 0;
  std::optional<Bytes> smallest_peak_;  ///< of the search's smallest plan
  std::vector<OpId> smallest_executions_;
  bool is_first_ = true;
  bool infeasible_ = false;  ///< that no plan exists
  bool staged_ = false;      ///< proved only for plans with at most one run of an op in a stage
};

Decision decide_by_checkmate(const PlanRequest& request) { return Checkmate(request).decide(); }

}  // namespace

Strategy checkmate_strategy() {
  return {
      .name = "checkmate",
      .summary = "solves a mixed-integer program over stages with HiGHS",
      .guarantee = "the best possible plan if given the time; small graphs only",
      .paper = "Jain et al.: Checkmate: Breaking the memory wall with optimal tensor "
               "rematerialization, MLSys 2020",
      .options = checkmate::with_model_options(
          {number_option("gap", "ends when the plan is within this share of the bound", 0, {0, 1}),
           integer_option("threads", "of the solver", 1, {1, 256}),
           integer_option("nodes", "of the solver's tree of branches, at most; 0: any number", 0,
                          {0, 1e9}),
           number_option("start", "of a first local search; 0: none", 300, {0, 1e6},
                         "thousand moves")}),
      .decide = decide_by_checkmate};
}

}  // namespace lowtide::strategy
