#include "planner/planner.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "base/time_share.h"
#include "bounds/budget_floor.h"
#include "certify/certificate.h"
#include "layout/sections.h"
#include "plan/lower.h"
#include "plan/replay.h"
#include "planner/attempts.h"
#include "planner/realize.h"
#include "planner/why_not_less.h"
#include "remat/stage_graph.h"

namespace lowtide::planner {
namespace {

/// Searches go on in rounds of 5 s, 25 s, 125 s and so on, and the last as long as there is time.
/// So a longer limit begins with the work of a shorter one, and its answer is no worse.
constexpr double kFirstRound = 5;
constexpr double kRoundGrowth = 5;
/// Of the limit, and beyond it where no plan within the budget was found: for the plan of the
/// fewest bytes.
constexpr double kSmallestShare = 1.0 / 3;
/// Of the limit, and beyond it: to go on from there to fewer bytes, and to make a plan cheaper that
/// only a descent found.
constexpr double kLowerShare = 1.0 / 3;
constexpr double kCheaperShare = 0.1;

/// What a search takes at least, by op, in nanoseconds: to lower and to lay out a plan. No search
/// counts it, and one that finds its plan at once would go on without end.
constexpr double kNanosecondsPerOp = 2000;

/// The option of strategies whose answers depend on random numbers.
constexpr const char* kSeed = "seed";
/// The switch of those that may be asked again with other ones.
constexpr const char* kRestarts = "restarts";

bool is_improvable(const Planned& best) {
  if (Control::stop_requested()) return false;
  if (!best.plan) return true;
  const double least = std::max(best.plan->lower_bound.value_or(0), best.keep_all_cost);
  return best.outcome != strategy::Outcome::optimal && best.plan->cost > kGoodEnough * least;
}

/// The cheaper plan, and the higher bound where it is about the same plans.
Planned better_of(Planned a, Planned b) {
  if (!a.plan || !b.plan) return b.plan ? std::move(b) : std::move(a);
  Planned& best = a.plan->cost <= b.plan->cost ? a : b;
  Planned& other = &best == &a ? b : a;
  const bool is_higher = other.plan->lower_bound && best.plan->lower_bound &&
                         other.plan->model == best.plan->model &&
                         *other.plan->lower_bound > *best.plan->lower_bound &&
                         *other.plan->lower_bound <= best.plan->cost * (1 + 1e-9);
  if (is_higher) {
    best.plan->lower_bound = other.plan->lower_bound;
    best.certificate = std::move(other.certificate);
  }
  return std::move(best);
}

/// Searches for one budget, one after another, and the best of their plans.
class Searches {
 public:
  explicit Searches(Search search)
      : search_(std::move(search)),
        smallest_(search_),
        has_luck_(search_.strategy.may_lose_reruns &&
                  strategy::find_option(search_.strategy, kSeed) != nullptr &&
                  !strategy::is_off(search_.options, kRestarts)) {
    smallest_.for_smallest = true;
  }

  bool has_plan() const { return best_ && best_->plan; }
  bool has_smallest() const { return best_ && best_->smallest_budget; }

  /// Whether another search may find a better plan.
  bool may_gain() const { return has_luck_ && (!best_ || is_improvable(*best_)); }

  /// Uses up the limit of `control` where that may find better plans.
  void search_for(Control& control) {
    if (!best_) search_again(control);
    while (may_gain() && control.limit_seconds() > 0 && control.used_share() < kLateShare) {
      search_.options[kSeed] += 1;
      Control rest = share_of_time(control, 1);
      search_again(rest);
    }
  }

  /// The plan of the fewest bytes is the answer, if it is within the budget; or else the refusal
  /// names what it takes. The search for it is the same for every budget and on a busy machine,
  /// limited by work alone, in proportion to the limit of `whole`: so a budget that a refusal names
  /// is met.
  void search_smallest(const Control& whole) {
    whole.report("looking for the plan of the fewest bytes");
    const double seconds = kSmallestShare * whole.limit_seconds();
    Control control = seconds > 0 ? Control::by_work(seconds) : Control();
    Planned smallest = search_once(smallest_, control);
    add_bound(smallest);
    best_ = std::move(smallest);
  }

  /// Of a refusal: goes on from its plan of the fewest bytes to one of fewer, by work alone as
  /// before.
  void lower_smallest(double seconds, const Control::Listener& listener) {
    if (!best_->smallest_plan || Control::stop_requested()) return;
    Search next = smallest_;
    next.start = start_from(*best_->smallest_plan);
    next.options[kSeed] += 1;
    Control control = Control::by_work(seconds, listener);
    Planned smaller = search_once(next, control);
    if (!smaller.plan && !is_smaller(smaller)) return;
    add_bound(smaller);
    best_ = std::move(smaller);
  }

  /// Of a plan that a descent to the fewest bytes found, whatever it costs.
  void make_cheaper(Control& control) {
    Search next = search_;
    next.start = start_from(*best_->plan);
    take(search_once(next, control));
  }

  Planned best() {
    best_->repeatable = repeatable_;
    return std::move(*best_);
  }

 private:
  /// As a strategy would answer it: it knows no views.
  std::vector<OpId> start_from(const Plan& plan) const {
    return remat::only_stages(remat::StageGraph(search_.graph), executions_of(plan));
  }

  void search_again(Control& control) {
    control.count(kNanosecondsPerOp * search_.graph.num_ops());
    take(search_once(search_, control));
  }

  void take(Planned next) {
    repeatable_ = repeatable_ && next.repeatable;
    if (!next.plan && next.certificate) without_plan_ = next.certificate;
    best_ = best_ ? better_of(std::move(*best_), std::move(next)) : std::move(next);
  }

  /// Of a plan that a search for the fewest bytes found: a bound that was proved for the budget by
  /// a search that found none.
  void add_bound(Planned& planned) const {
    if (!planned.plan || !without_plan_ || without_plan_->lower_bound > planned.plan->cost) return;
    planned.plan->lower_bound = without_plan_->lower_bound;
    planned.plan->model = without_plan_->chain ? "any-order" : "fixed-order";
    planned.certificate = without_plan_;
  }

  bool is_smaller(const Planned& other) const {
    return other.smallest_plan && *other.smallest_budget < *best_->smallest_budget;
  }

  Search search_;
  Search smallest_;
  const bool has_luck_;
  std::optional<Planned> best_;
  std::shared_ptr<const certify::Certificate> without_plan_;  ///< of a search that found none
  bool repeatable_ = true;
};

/// Where a first round found no plan, and others may not either: then goes on from the plan of the
/// fewest bytes to one of fewer. The rounds come before, as plans that annealing finds cost less.
void search_below(Searches& searches, Control& control) {
  const auto report = [&](const std::string& message) { control.report(message); };
  const double limit = control.limit_seconds();
  searches.search_smallest(control);
  Control rounds(limit - kFirstRound, report);
  searches.search_for(rounds);
  if (!searches.has_plan()) searches.lower_smallest(kLowerShare * limit, report);
  if (!searches.has_plan()) return;
  Control rest(kCheaperShare * limit, report);
  searches.make_cheaper(rest);
}

void search_in_rounds(Searches& searches, Control& control) {
  double round = kFirstRound;
  for (; searches.may_gain() && round < control.left_seconds(); round *= kRoundGrowth) {
    Control part = part_of_time(control, round);
    searches.search_for(part);
    if (!searches.has_plan() && searches.may_gain()) return search_below(searches, control);
  }
  searches.search_for(control);
}

/// No plan costs less than keep-all: a sum in another order may seem to.
double above(double keep_all_cost, double cost) {
  return keep_all_cost > 0 ? std::max(0.0, cost / keep_all_cost - 1) : 0;
}

}  // namespace

double Planned::overhead() const {
  if (!plan) return std::numeric_limits<double>::quiet_NaN();
  return above(keep_all_cost, plan->cost);
}

std::optional<double> Planned::least_overhead() const {
  if (!plan || !plan->lower_bound) return std::nullopt;
  return above(keep_all_cost, *plan->lower_bound);
}

std::optional<double> Planned::gap() const {
  if (!plan || !plan->lower_bound) return std::nullopt;
  if (plan->cost <= *plan->lower_bound) return 0;
  if (*plan->lower_bound <= 0) return std::nullopt;
  return plan->cost / *plan->lower_bound - 1;
}

Planned plan_within(const Graph& graph, const strategy::Strategy& strategy, Bytes budget_bytes,
                    const strategy::GivenOptions& options, Control& control, Bytes reserved_bytes) {
  const Control clock;
  const bool is_hopeless = budget_bytes < keep_all_reference(graph).peak_bytes &&
                           budget_bytes < bounds::budget_floor(graph);
  Searches searches({graph, strategy, budget_bytes, reserved_bytes, /*for_smallest=*/false,
                     strategy::complete_options(strategy, options), control.limit_seconds()});
  if (!is_hopeless) search_in_rounds(searches, control);
  if (!searches.has_plan() && !searches.has_smallest()) searches.search_smallest(control);
  Planned best = searches.best();
  best.seconds = clock.elapsed_seconds();
  best.repeatable = best.repeatable && !control.is_behind();
  if (best.plan) best.plan->seconds = best.seconds;
  return best;
}

Planned plan_of(const Graph& graph, std::span<const OpId> executions, std::string_view strategy,
                Bytes budget_bytes) {
  const Control clock;
  Planned planned = nothing_planned(graph, budget_bytes);
  Plan plan = with_addresses(graph, lower_in_place(graph, executions), budget_bytes);
  plan.strategy = strategy;
  const Bytes needed = layout::needed_bytes(graph, plan);
  planned.seconds = plan.seconds = clock.elapsed_seconds();
  if (needed > budget_bytes) {
    planned.smallest_budget = needed;
    planned.why_not_less = why_not_less(graph);
    planned.message =
        fmt::format("infeasible: the {} plan needs an arena of {}, its peak is {}. {}", strategy,
                    in_full(needed), in_full(plan.peak_bytes), planned.why_not_less);
    plan.budget_bytes = needed;
    require_valid(graph, plan);
    planned.smallest_plan = std::move(plan);
    return planned;
  }
  plan.budget_bytes = budget_bytes;
  require_valid(graph, plan);
  planned.outcome = strategy::Outcome::feasible;
  planned.plan = std::move(plan);
  return planned;
}

}  // namespace lowtide::planner
