#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <optional>
#include <utility>

#include "remat/moves.h"
#include "strategy/answer.h"
#include "strategy/intervals/cp_sat.h"
#include "strategy/intervals/neighbourhood.h"
#include "strategy/strategy.h"

namespace lowtide::strategy {
namespace {

constexpr double kAnyCost = std::numeric_limits<double>::infinity();

/// Makes a first plan, improves it in large neighbourhoods, and then decides all intervals at once:
/// by branch and bound on a small graph, or by CP-SAT when asked.
class Intervals {
 public:
  explicit Intervals(const PlanRequest& request)
      : request_(request),
        graph_(request.graph),
        plan_(graph_, request.budget_bytes),
        moves_(graph_, plan_),
        most_intervals_(static_cast<int>(request.options.at("intervals"))),
        search_(graph_, most_intervals_),
        conflicts_(static_cast<std::int64_t>(1000 * request.options.at("conflicts"))),
        rounds_(static_cast<std::int64_t>(request.options.at("rounds"))),
        starts_(is_small() ? intervals::all_starts(graph_) : intervals::Starts()) {}

  Decision decide() {
    if (auto kept = keep_all_if_it_fits(graph_, request_.budget_bytes)) return *std::move(kept);
    go_down();
    smallest_ = plan_.memory().peak();
    smallest_executions_ = remat::executions_of(graph_, plan_.events());
    plan_.set_limit(request_.budget_bytes);
    if (plan_.fits()) improve();
    if (uses_cp_sat()) {
      solve();
    } else if (may_prove()) {
      prove();
    }
    return answer();
  }

 private:
  bool is_small() const {
    constexpr std::int64_t kMostStarts = 5'000;
    std::int64_t starts = 0;
    for (int i = 0; i < graph_.end(); ++i) starts += graph_.stage(i).deadline - i;
    return starts <= kMostStarts;
  }

  bool uses_cp_sat() const { return request_.options.at("solver") >= 1; }
  bool may_prove() const { return conflicts_ > 0 && is_small(); }

  /// Lowers the limit in steps that do not depend on the budget, so that a request for the peak
  /// that is reached here succeeds.
  void go_down() {
    constexpr Bytes kFine = 2048;
    std::vector<int> ops(graph_.end());
    std::iota(ops.begin(), ops.end(), 0);
    const intervals::Starts starts = intervals::starts_at_uses(graph_, plan_, ops);
    intervals::Neighbourhoods neighbourhoods(graph_, 1);
    if (!request_.start.empty() && go_on(starts, neighbourhoods)) return;
    for (Bytes parts = 128; parts <= kFine; parts *= 4) {
      while (plan_.memory().peak() > request_.budget_bytes && !request_.control.should_stop()) {
        const Bytes peak = plan_.memory().peak();
        plan_.set_limit(peak - 1 - peak / parts);
        if (!step_down(starts, neighbourhoods)) break;
      }
    }
  }

  /// Tries one step from the earlier answer to a plan within the budget.
  bool go_on(const intervals::Starts& starts, intervals::Neighbourhoods& neighbourhoods) {
    remat::change_to(plan_, remat::events_of(graph_, request_.start));
    const bool done = step_down(starts, neighbourhoods);
    if (!done) remat::change_to(plan_, {});
    return done;
  }

  /// Makes a plan within the limit: adds reruns, or changes the intervals of some ops.
  bool step_down(const intervals::Starts& starts, intervals::Neighbourhoods& neighbourhoods) {
    constexpr int kTries = 200;
    constexpr std::int64_t kConflicts = 100;
    const intervals::Effort effort{
        .cost_below = kAnyCost, .conflicts = kConflicts, .first_only = true};
    const std::vector<remat::Event> before = plan_.events();
    intervals::Branched found = search_.run(plan_, starts, effort, request_.control);
    for (int i = 0; i < kTries && !found.events && !request_.control.should_stop(); ++i) {
      found = decide_anew(neighbourhoods.draw(plan_), effort);
      remat::change_to(plan_, before);
    }
    if (!found.events) return false;
    remat::change_to(plan_, *std::move(found.events));
    moves_.trim();
    return true;
  }

  /// Decides the intervals of these ops again; all others stay. Leaves the plan without them.
  intervals::Branched decide_anew(const std::vector<int>& ops, const intervals::Effort& effort) {
    for (int op : ops) {
      while (plan_.runs(op).size() > 1) plan_.remove({plan_.runs(op).back(), op});
    }
    return search_.run(plan_, intervals::starts_at_uses(graph_, plan_, ops), effort,
                       request_.control);
  }

  void improve() {
    constexpr std::int64_t kConflicts = 150;
    constexpr double kSame = 1 + 1e-9;  // so of two plans that cost the same, takes the newer one
    take();
    intervals::Neighbourhoods neighbourhoods(
        graph_, static_cast<std::uint64_t>(request_.options.at("seed")));
    for (std::int64_t i = 0; i < rounds_ && !is_time_to_prove(); ++i) {
      const double cost = plan_.cost();
      std::vector<remat::Event> before = plan_.events();
      const std::vector<int> ops = neighbourhoods.draw(plan_);
      intervals::Branched found =
          decide_anew(ops, {.cost_below = cost * kSame, .conflicts = kConflicts});
      remat::change_to(plan_, found.events ? *std::move(found.events) : std::move(before));
      if (plan_.cost() < cost) take();
    }
  }

  /// Reserves a part of the time limit for the proof, if there is hope of one.
  bool is_time_to_prove() const {
    constexpr double kShare = 0.6;
    constexpr double kShareBeforeCpSat = 0.2;
    const Control& control = request_.control;
    if (control.should_stop()) return true;
    if (control.limit_seconds() <= 0 || !(may_prove() || uses_cp_sat())) return false;
    const double share = uses_cp_sat() ? kShareBeforeCpSat : kShare;
    return control.used_share() > share;
  }

  /// Keeps the plan, without unneeded reruns.
  void take() {
    moves_.trim();
    if (best_ && plan_.cost() >= best_cost_) return;
    best_ = plan_.events();
    best_cost_ = plan_.cost();
    report("");
  }

  void solve() {
    if (request_.budget_bytes < graph_.resident_bytes() || request_.control.should_stop()) return;
    report(", CP-SAT begins");
    intervals::CpSatRequest asked{.budget = request_.budget_bytes,
                                  .most_intervals = most_intervals_,
                                  .threads = static_cast<int>(request_.options.at("threads")),
                                  .seed = static_cast<int>(request_.options.at("seed")),
                                  .start = best_.value_or(std::vector<remat::Event>())};
    asked.on_solution = [this](std::span<const remat::Event> events) {
      remat::change_to(plan_, {events.begin(), events.end()});
      if (plan_.fits()) take();
    };
    const intervals::CpSatProof proof =
        intervals::solve_with_cp_sat(graph_, asked, request_.control);
    constexpr double kRounding = 1e-9;
    bound_ = std::min(proof.bound, best_ ? best_cost_ : proof.bound);
    is_proved_ = best_ ? best_cost_ <= proof.bound * (1 + kRounding) : proof.infeasible;
    is_capped_ = true;
    claim_only_what_is_so();
  }

  void prove() {
    report(", proving");
    remat::change_to(plan_, {});
    const intervals::Effort effort{
        .cost_below = best_ ? best_cost_ : kAnyCost, .conflicts = conflicts_, .thorough = true};
    intervals::Branched found = search_.run(plan_, starts_, effort, request_.control);
    if (found.events) {
      best_ = std::move(found.events);
      best_cost_ = found.cost;
    }
    is_proved_ = found.complete;
    if (found.complete) bound_ = best_cost_;
    is_capped_ = found.capped;
    claim_only_what_is_so();
  }

  /// Plans that are not searched may need less memory.
  void claim_only_what_is_so() {
    if (graph_.has_all_plans()) return;
    bound_.reset();
    is_proved_ = false;
  }

  Decision answer() const {
    if (!best_ && is_proved_) return none_exists();
    if (!best_) {
      return nothing_fits(smallest_, smallest_executions_, "the search for intervals",
                          request_.control);
    }
    Decision result;
    result.executions = remat::executions_of(graph_, *best_);
    result.lower_bound = bound_;
    result.outcome = outcome_of(request_.graph, result);
    if (bound_) result.bound_model = is_capped_ ? "intervals" : "stages";
    return result;
  }

  Decision none_exists() const {
    Decision result;
    result.outcome = Outcome::infeasible;
    result.smallest_peak = smallest_;
    result.smallest_executions = smallest_executions_;
    result.message = fmt::format(
        "no plan{} is within the budget; one of {} bytes is known",
        is_capped_ ? fmt::format(" that runs each op at most {} times", most_intervals_) : "",
        smallest_);
    return result;
  }

  void report(const char* what) const {
    if (!best_) return;
    request_.control.report(
        fmt::format("plan {:.3f}%{}", 100 * (best_cost_ / graph_.required_cost() - 1), what));
  }

  const PlanRequest& request_;
  remat::StageGraph graph_;
  remat::EventPlan plan_;
  remat::Moves moves_;
  int most_intervals_;
  intervals::BranchAndBound search_;
  std::int64_t conflicts_;
  std::int64_t rounds_;
  intervals::Starts starts_;  // of a small graph
  std::optional<std::vector<remat::Event>> best_;
  double best_cost_ = 0;
  Bytes smallest_ = 0;  // peak at the end of the descent
  std::vector<OpId> smallest_executions_;
  std::optional<double> bound_;
  bool is_proved_ = false;
  bool is_capped_ = false;
};

Decision decide_by_intervals(const PlanRequest& request) { return Intervals(request).decide(); }

}  // namespace

Strategy intervals_strategy() {
  return {.name = "intervals",
          .summary = "branch and bound, and large neighbourhoods, over a few retention intervals "
                     "per value",
          .guarantee = "any graph; on small ones the best plan with so many intervals, proved",
          .paper = "Bartan et al.: Moccasin: Efficient tensor rematerialization for neural "
                   "networks, ICML 2023",
          .options =
              {integer_option("intervals", "of each value, at most", 2, {1, 1e6}),
               integer_option("rounds", "of the search of large neighbourhoods", 3000, {0, 1e9}),
               number_option("conflicts", "of the branch and bound over the whole graph; 0: none",
                             1000, {0, 1e9}, "thousand conflicts"),
               seed_option(),
               choice_option("solver", "of the whole graph: own, or cp-sat of the package OR-Tools",
                             {"own", "cp-sat"}),
               integer_option("threads", "of CP-SAT", 1, {1, 256})},
          .decide = decide_by_intervals};
}

}  // namespace lowtide::strategy
