#include "planner/attempts.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/time_share.h"
#include "bounds/budget_floor.h"
#include "bounds/certificate.h"
#include "bounds/moments_bound.h"
#include "bounds/raised.h"
#include "layout/sections.h"
#include "ordering/known_order.h"
#include "plan/optimal.h"
#include "planner/bracket.h"
#include "planner/realize.h"
#include "planner/smaller_arena.h"
#include "planner/spare_room.h"
#include "planner/why_not_less.h"

namespace lowtide::planner {
namespace {

/// How often a strategy is asked, at most.
constexpr int kAttempts = 8;
/// Shares of the time left that the first attempt and each later one may use.
constexpr double kFirstShare = 0.45;
constexpr double kLaterShare = 0.4;
/// The same of the first one for the plan of the fewest bytes: the next one goes on from its plan.
/// Where it goes on from a plan itself, changes that lower its arena gain more.
constexpr double kDescentShare = 0.75;
constexpr double kLaterDescentShare = 0.4;
/// Share of the time limit after which alternatives that may well not fit are no longer laid out,
/// and a fitting one that costs more is taken.
constexpr double kLayoutShare = 0.75;
/// Share of the time limit for raising a bound that is below the cost of the plan.
constexpr double kBoundShare = 0.2;
/// Share of that time for prices; the rest is for moments.
constexpr double kPricesShare = 0.5;
/// Share of the time left for removing reruns from a plan that fits.
constexpr double kSpareRoomShare = 0.15;
/// The switch of strategies that may lose reruns.
constexpr const char* kSpareRoom = "spare-room";
/// The switches of strategies with a bound.
constexpr const char* kBound = "bound";
constexpr const char* kMoments = "moments";
/// So many alternatives are tried whose layouts fit only if they waste less than the answer's: to
/// ask the strategy again needs less time than to try all of them.
constexpr int kDoubtfulLayouts = 2;

/// Asks a strategy until a plan with addresses fits.
class Attempts {
 public:
  Attempts(const Search& search, Control& control)
      : graph_(search.graph),
        strategy_(search.strategy),
        budget_(search.budget_bytes),
        reserved_(search.reserved_bytes),
        for_smallest_(search.for_smallest),
        options_(search.options),
        limit_seconds_(search.limit_seconds),
        control_(control),
        adapted_(search.start) {}

  Planned run() {
    planned_ = nothing_planned(graph_, budget_);
    planned_.reserved_bytes = reserved_;
    if (!ask_within_budget() && for_smallest_) explain();
    planned_.repeatable = !control_.is_behind();
    if (!planned_.repeatable) {
      control_.report("the clock cut the planning short: another run may find another plan");
    }
    return std::move(planned_);
  }

 private:
  /// How much work a layout is worth: that of a strategy's answer, or of an alternative to it.
  enum class Care : std::uint8_t { thorough, quick };

  struct Found {
    Plan plan;
    std::vector<OpId> executions;
    Bytes needed_bytes;  ///< layout::needed_bytes()
    bool optimal;        ///< no plan within the budget costs less, says the strategy
  };

  /// The strategy sees a plan's peak, and not its layout. So it is asked for less when the arena
  /// does not fit, with the plan that was too large as a start, and for more again when that was
  /// too little (planner/bracket.h).
  bool ask_within_budget() {
    std::optional<Bytes> asked;
    if (!for_smallest_) asked = budget_;
    for (int attempt = 0; asked && attempt < kAttempts; ++attempt) {
      std::optional<Found> found = decide(*asked);
      if (stopped_) break;
      if (!found) {
        asked = bracket_.after_infeasible(*asked);
      } else if (found->needed_bytes > budget_) {
        adapted_ = std::move(found->executions);
        too_large_cost_ = found->plan.cost;
        asked = after_too_large(*asked, found->needed_bytes - budget_);
      } else {
        asked = after_fitting(*asked, std::move(*found));
      }
    }
    if (best_) return accept(std::move(*best_));
    return for_smallest_ && !Control::stop_requested() && accept_smallest();
  }

  std::optional<Bytes> after_too_large(Bytes asked, Bytes missing) {
    control_.report(fmt::format("{}: the layout is {} too large, asking for less", strategy_.name,
                                format_bytes(missing)));
    return bracket_.after_too_large(asked, missing, best_.has_value());
  }

  std::optional<Bytes> after_fitting(Bytes asked, Found found) {
    offer(std::move(found));
    const std::optional<Bytes> next = bracket_.after_fitting(asked);
    const bool is_far = is_far_from_bound(best_->plan.cost);
    const bool is_good = best_->plan.cost <= kGoodEnough * too_large_cost_;
    if (is_good && !is_far) return std::nullopt;
    return is_late(is_far ? 1 - kBoundShare : kLateShare) ? std::nullopt : next;
  }

  /// Whether too little time is left to improve the plan.
  bool is_late(double share = kLateShare) const {
    return Control::stop_requested() || control_.used_share() > share;
  }

  /// The plan that needs the fewest bytes, however short the time limit. Nothing here depends on
  /// the budget, so that a search with its arena as the budget finds it again.
  bool accept_smallest() {
    const bool stopped = stopped_;
    if (!smallest_peak_) decide(0);
    planned_.smallest_budget = smallest_peak_;
    if (!smallest_peak_ || Control::stop_requested()) return false;
    std::optional<Found> found;
    adapted_ = smallest_executions_;
    if (!control_.should_stop()) found = decide(*smallest_peak_);
    if (!smallest_executions_.empty() && (!found || found->needed_bytes > *smallest_peak_)) {
      Found other = smallest_found();
      if (!found || other.needed_bytes < found->needed_bytes) found = std::move(other);
    }
    stopped_ = stopped_ || stopped;
    if (!found) return false;
    found = in_smaller_arena(std::move(*found));
    if (found->needed_bytes <= budget_) return accept(with_less_spare_room(std::move(*found)));
    planned_.smallest_budget = found->needed_bytes;
    planned_.smallest_plan = std::move(found->plan);
    planned_.smallest_plan->strategy = strategy_.name;
    planned_.smallest_plan->budget_bytes = found->needed_bytes;
    require_valid(graph_, *planned_.smallest_plan);
    return false;
  }

  Found in_smaller_arena(Found found) const {
    if (!strategy_.may_lose_reruns) return found;
    PlacedPlan smaller =
        with_smaller_arena(graph_, {std::move(found.plan), std::move(found.executions)}, control_);
    return found_with(std::move(smaller.plan), std::move(smaller.executions));
  }

  /// The plan that a strategy told of when it found none within the budget. Its layout is limited
  /// by work alone: the time may be up, and a hasty layout would name a larger budget.
  Found smallest_found() {
    Plan plan = placed(lower_in_place(graph_, smallest_executions_), *smallest_peak_,
                       packing_work(Care::thorough), Control());
    return found_with(std::move(plan), std::move(smallest_executions_));
  }

  void note_smallest(strategy::Decision& decision) {
    if (!decision.smallest_peak) return;
    if (smallest_peak_ && *smallest_peak_ < *decision.smallest_peak) return;
    smallest_peak_ = decision.smallest_peak;
    smallest_executions_ = std::move(decision.smallest_executions);
  }

  /// A plan with addresses; nothing when the strategy has none.
  std::optional<Found> decide(Bytes asked) {
    Control control = limited_control();
    strategy::Decision decision =
        strategy_.decide({graph_, asked, options_, control, adapted_, &known_order_, prices_});
    stopped_ = decision.outcome == strategy::Outcome::stopped;
    if (decision.certificate) prices_ = bounds::op_prices(*decision.certificate);
    note_smallest(decision);
    // A bound for less than the budget says nothing about the budget.
    if (asked >= budget_ && decision.lower_bound) {
      bound_ = std::max(bound_.value_or(0), *decision.lower_bound);
      bound_model_ = decision.bound_model;
      if (asked == budget_) planned_.certificate = std::move(decision.certificate);
    }
    if (!has_plan(decision)) return std::nullopt;
    Plan plan = lower_in_place(graph_, decision.executions);
    Found found = found_from(std::move(decision.executions), std::move(plan), Care::thorough);
    found.optimal = decision.outcome == strategy::Outcome::optimal && asked >= budget_;
    return best_to_lay_out(std::move(found), std::move(decision.alternatives));
  }

  /// What a layout should need. Of the fewest bytes it must not depend on the budget.
  Bytes goal() const { return for_smallest_ ? smallest_peak_.value_or(budget_) : budget_; }

  /// The answer, or when its addresses do not fit the first alternative whose addresses do, or else
  /// the one that comes closest.
  Found best_to_lay_out(Found found, std::vector<std::vector<OpId>> alternatives) {
    const double good_enough = kGoodEnough * found.plan.cost;
    int doubtful = 0;
    for (std::vector<OpId>& other : alternatives) {
      if (found.needed_bytes <= goal() || is_late()) break;
      Plan plan = lower_in_place(graph_, other);
      // With little time, or some tried, only one that fits if its layout wastes no more; the last
      // one needs the least.
      const Bytes waste = found.needed_bytes - found.plan.peak_bytes;
      const bool is_doubtful = plan.peak_bytes + waste > goal() && &other != &alternatives.back();
      if (is_doubtful && (++doubtful > kDoubtfulLayouts || is_late(kLayoutShare))) continue;
      Found next = found_from(std::move(other), std::move(plan), Care::quick);
      const bool costs_more = next.plan.cost > good_enough && !is_late(kLayoutShare);
      if (next.needed_bytes <= goal() && costs_more && !for_smallest_) {
        offer(std::move(next));
        break;
      }
      if (next.needed_bytes < found.needed_bytes) found = std::move(next);
    }
    return found;
  }

  void offer(Found found) {
    found = with_less_spare_room(std::move(found));
    if (!best_ || found.plan.cost < best_->plan.cost) best_ = std::move(found);
  }

  /// The strategy was asked for less than the budget, or its plan leaves some of it: what was run
  /// again to save that may not have to.
  Found with_less_spare_room(Found found) const {
    const bool is_least =
        found.optimal || found.plan.cost <= bound_.value_or(planned_.keep_all_cost);
    const bool may_lose = strategy_.may_lose_reruns && !strategy::is_off(options_, kSpareRoom);
    if (!may_lose || is_least || is_late()) return found;
    const Control part = share_of_time(control_, kSpareRoomShare);
    const packing::PackingGoal goal = packing_goal(graph_, budget_, packing_work(Care::thorough));
    const double before = found.plan.cost;
    PlacedPlan better = without_needless_reruns(
        graph_, {std::move(found.plan), std::move(found.executions)}, goal, part);
    if (better.plan.cost < before) {
      control_.report(fmt::format("the arena has room for {:.3f}% less",
                                  100 * (before - better.plan.cost) / planned_.keep_all_cost));
    }
    const bool optimal = found.optimal;
    found = found_with(std::move(better.plan), std::move(better.executions));
    found.optimal = optimal;
    return found;
  }

  Found found_from(std::vector<OpId> executions, Plan without_addresses, Care care) const {
    // The work ends it mostly; on a busy machine, time, so that some is left to ask for less.
    const Control part = share_of_time(control_, care == Care::thorough ? 0.3 : 0.1);
    Plan plan = placed(std::move(without_addresses), goal(), packing_work(care), part);
    return found_with(std::move(plan), std::move(executions));
  }

  /// A plan of the fewest bytes whose addresses exceed its peak has no border yet, which would let
  /// it need less once it is over.
  Plan placed(Plan without_addresses, Bytes goal, std::int64_t work, const Control& control) const {
    Plan plan = with_addresses(graph_, std::move(without_addresses), goal, work, control);
    const Bytes arena_bytes = plan.layout->arena_bytes;
    const Bytes needed = layout::needed_bytes(graph_, plan);
    if (!for_smallest_ || needed == arena_bytes || arena_bytes <= goal) return plan;
    Plan divided = with_addresses(graph_, plan, arena_bytes, work, control);
    return layout::needed_bytes(graph_, divided) < needed ? divided : plan;
  }

  Found found_with(Plan plan, std::vector<OpId> executions) const {
    const Bytes needed = layout::needed_bytes(graph_, plan);
    return {std::move(plan), std::move(executions), needed, false};
  }

  /// A layout may take a part of the time limit.
  std::int64_t packing_work(Care care) const {
    constexpr double kWorkPerSecond = 1e9 / packing::kPackingNanoseconds;
    const bool is_thorough = care == Care::thorough;
    const std::int64_t most = (is_thorough ? 4 : 1) * packing::kPackingWork;
    if (control_.limit_seconds() <= 0) return most;
    const double share = is_thorough ? 0.12 : 0.04;
    const double work = share * kWorkPerSecond * control_.limit_seconds();
    return std::min(most, static_cast<std::int64_t>(work));
  }

  Control limited_control() const {
    if (for_smallest_ && !smallest_peak_) {
      return share_of_time(control_, adapted_.empty() ? kDescentShare : kLaterDescentShare);
    }
    return share_of_time(control_, bracket_.has_begun() ? kLaterShare : kFirstShare);
  }

  bool accept(Found found) {
    Plan& plan = found.plan;
    plan.strategy = strategy_.name;
    plan.budget_bytes = budget_;
    if (!found.optimal) raise_bound(plan.cost);
    // In-place writes may reach below a bound that was proved without them.
    if (bound_ && *bound_ <= plan.cost * (1 + 1e-9)) {
      plan.lower_bound = bound_;
      plan.model = bound_model_;
    } else {
      planned_.certificate.reset();
    }
    require_valid(graph_, plan);
    planned_.smallest_budget.reset();
    planned_.outcome = is_optimal(plan) ? strategy::Outcome::optimal : strategy::Outcome::feasible;
    planned_.plan = std::move(plan);
    return true;
  }

  bool is_far_from_bound(double cost) const {
    constexpr double kFar = 0.02;
    return may_save(kFar, cost);
  }

  /// Whether the bound allows a plan that saves more than this share of the cost of keep-all.
  bool may_save(double share, double cost) const {
    return bound_ && cost - *bound_ > share * planned_.keep_all_cost;
  }

  /// A bound that is below the plan's cost gets some of the time that is left.
  void raise_bound(double cost) {
    constexpr double kNear = 0.002;
    if (!may_save(kNear, cost) || !planned_.certificate) return;
    if (strategy::is_off(options_, kBound)) return;
    const double seconds =
        std::min(control_.left_seconds(), kBoundShare * control_.limit_seconds());
    if (control_.limit_seconds() > 0 && seconds <= 0) return;
    const Control part = part_of_time(control_, seconds);
    if (is_far_from_bound(cost)) raise_bound_by_prices(cost, share_of_time(part, kPricesShare));
    if (!strategy::is_off(options_, kMoments)) raise_bound_by_moments(cost, part);
  }

  void raise_bound_by_prices(double cost, const Control& control) {
    if (planned_.certificate->chain) return;
    auto higher = bounds::raised(graph_, *planned_.certificate, control);
    if (higher == nullptr || higher->lower_bound > cost) return;
    bound_ = std::max(*bound_, higher->lower_bound);
    planned_.certificate = std::move(higher);
  }

  /// The certificate proves less than this bound.
  void raise_bound_by_moments(double cost, const Control& control) {
    const double higher = bounds::moments_bound(graph_, *planned_.certificate, cost, control);
    if (higher <= cost * (1 + 1e-9)) bound_ = std::max(*bound_, higher);
  }

  /// Says why there is no plan, and which budget would do.
  void explain() {
    // More time cannot help where nothing fits; it could only find a smaller budget that would do.
    const bool is_known = planned_.smallest_budget || budget_ < bounds::budget_floor(graph_);
    if (Control::stop_requested() || (stopped_ && !is_known)) {
      planned_.outcome = strategy::Outcome::stopped;
      planned_.message = why_stopped();
      return;
    }
    planned_.outcome = strategy::Outcome::infeasible;
    planned_.why_not_less = why_not_less(graph_, reserved_);
    planned_.message = fmt::format("infeasible: {}. {}", why_infeasible(), planned_.why_not_less);
  }

  /// A number of bytes of the plan, as one of the user's budget.
  std::string as_budget(Bytes bytes) const { return in_full(bytes + reserved_); }

  std::string in_the_limit() const {
    return fmt::format(" in the time limit of {:.3g} s", limit_seconds_);
  }

  std::string why_infeasible() const {
    if (!planned_.smallest_budget) {
      return fmt::format("{} finds no plan within {}", strategy_.name, as_budget(budget_));
    }
    const std::string so_far = stopped_ ? in_the_limit() : "";
    return fmt::format("the smallest budget that {} reaches{} is {}", strategy_.name, so_far,
                       as_budget(*planned_.smallest_budget));
  }

  std::string why_stopped() const {
    if (Control::stop_requested() || control_.limit_seconds() <= 0) {
      return fmt::format("{} was stopped before it found a plan within {}.", strategy_.name,
                         as_budget(budget_));
    }
    const std::string reached =
        smallest_peak_ ? fmt::format(" It came down to {}.", as_budget(*smallest_peak_)) : "";
    return fmt::format("{} found no plan within {}{}.{} More time may do.", strategy_.name,
                       as_budget(budget_), in_the_limit(), reached);
  }

  const Graph& graph_;
  const strategy::Strategy& strategy_;
  const Bytes budget_;
  const Bytes reserved_;
  const bool for_smallest_;
  const strategy::StrategyOptions& options_;
  const double limit_seconds_;
  Control& control_;
  Planned planned_;
  ordering::KnownOrder known_order_;
  std::vector<double> prices_;  ///< of the last answer's bound: see PlanRequest
  Bracket bracket_{budget_};
  std::optional<double> bound_;
  std::string bound_model_;
  std::optional<Bytes> smallest_peak_;
  std::vector<OpId> smallest_executions_;  ///< a plan of that peak; may be empty
  std::optional<Found> best_;
  std::vector<OpId> adapted_;  // by the next attempt: its layout did not fit; or of the least peak
  double too_large_cost_ = 0;
  bool stopped_ = false;
};

}  // namespace

Planned search_once(const Search& search, Control& control) {
  return Attempts(search, control).run();
}

}  // namespace lowtide::planner
