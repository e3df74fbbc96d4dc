#include "planner/planner.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <utility>

#include "base/error.h"
#include "base/nearest.h"
#include "base/time_share.h"
#include "bounds/budget_floor.h"
#include "bounds/certificate.h"
#include "bounds/raised.h"
#include "ordering/known_order.h"
#include "plan/in_place.h"
#include "plan/lower.h"
#include "plan/replay.h"
#include "plan/verify.h"
#include "planner/spare_room.h"
#include "planner/why_not_less.h"

namespace lowtide::planner {
namespace {

/// How often a strategy is asked, at most.
constexpr int kAttempts = 8;
/// Of the time that is left, what the first attempt and each later one may take.
constexpr double kFirstShare = 0.45;
constexpr double kLaterShare = 0.4;
/// Of the whole time limit, what may have gone when alternatives are laid out that may well not
/// fit.
constexpr double kLayoutShare = 0.75;
/// And when it is too late to improve what was found.
constexpr double kLateShare = 0.9;
/// Of the time limit, what a bound gets that is far below the plan that was found.
constexpr double kBoundShare = 0.2;
/// Of the time that is left, what may be spent on taking reruns out of a plan that fits.
constexpr double kSpareRoomShare = 0.15;
/// Of the alternatives whose layouts fit only if they waste less, so many are tried: to ask again
/// takes less time than all of them.
constexpr int kDoubtfulLayouts = 2;
/// A new layout wastes other bytes than the last one: of what was missing, so much goes once there
/// is a plan that fits; and until then so much at first, and each time so many times more. Asking
/// for too little costs little, and can be mended with time that is left; asking often takes it.
constexpr double kLaterMargin = 1.25;
constexpr double kFirstMargin = 1;
constexpr double kMarginGrowth = 2.5;
/// What is missing counts as one part in so many of the budget at least.
constexpr Bytes kLeastMissing = 2000;
/// A plan that fits is good enough when it costs no more than this times what one costs whose
/// layout does not fit; else it is kept in case that asking again finds nothing better.
constexpr double kGoodEnough = 1.0005;
/// One part in so many of the budget is not worth another attempt.
constexpr Bytes kWorthATry = 250;
/// Searches go on in rounds of so many seconds, each so many times as long as the one before, and
/// the last as long as there is time. So a longer limit begins with the work of a shorter one, and
/// its answer is no worse.
constexpr double kFirstRound = 5;
constexpr double kRoundGrowth = 5;

const strategy::StrategyOption* find_option(const strategy::Strategy& strategy,
                                            std::string_view name) {
  const auto found = std::ranges::find(strategy.options, name, &strategy::StrategyOption::name);
  return found == strategy.options.end() ? nullptr : &*found;
}

[[noreturn]] void refuse_option(const strategy::Strategy& strategy, const std::string& name) {
  std::vector<std::string> names;
  for (const strategy::StrategyOption& option : strategy.options) names.emplace_back(option.name);
  throw InputError(fmt::format("the strategy {} has no option \"{}\".{}", strategy.name, name,
                               names.empty() ? " It has none." : did_you_mean(name, names)));
}

strategy::StrategyOptions completed(const strategy::Strategy& strategy,
                                    const strategy::StrategyOptions& given) {
  strategy::StrategyOptions options = given;
  for (const auto& [name, value] : given) {
    const strategy::StrategyOption* option = find_option(strategy, name);
    if (option == nullptr) refuse_option(strategy, name);
    if (!(option->low <= value && value <= option->high)) {
      throw InputError(fmt::format("the option \"{}\" of {} must be from {} to {}, not {}", name,
                                   strategy.name, option->low, option->high, value));
    }
  }
  options.merge(strategy::default_options(strategy));
  return options;
}

std::string in_full(Bytes bytes) {
  return fmt::format("{} ({} bytes)", format_bytes(bytes), bytes);
}

Plan lowered(const Graph& graph, std::span<const OpId> executions) {
  return with_in_place(graph, lower(graph, executions));
}

packing::PackingGoal goal_of(const Graph& graph, Bytes budget, std::int64_t work) {
  // Bytes of a graph that never runs are mere numbers, and need no alignment.
  const Bytes alignment = graph.executable() ? packing::kArenaAlignment : 1;
  return {alignment, std::max<Bytes>(0, budget - graph.resident_bytes()), work};
}

/// Within the budget if that can be; what is left of it is of no use.
Plan laid_out(const Graph& graph, Plan plan, Bytes budget,
              std::int64_t work = packing::kPackingWork, const Control& control = Control()) {
  plan.layout = layout::assign_addresses(graph, plan, goal_of(graph, budget, work), control);
  return plan;
}

/// A plan that a strategy made is valid, or the strategy is wrong.
void require_valid(const Graph& graph, const Plan& plan) {
  if (const auto violation = verify(graph, plan)) {
    throw std::logic_error(fmt::format("{} made a plan that breaks the rule {}: {}", plan.strategy,
                                       name(violation->rule), violation->message));
  }
}

Planned asked(const Graph& graph, Bytes budget) {
  const KeepAll reference = keep_all_reference(graph);
  Planned planned;
  planned.budget_bytes = budget;
  planned.keep_all_cost = reference.cost;
  planned.keep_all_peak_bytes = reference.peak_bytes;
  return planned;
}

/// Asks a strategy until a plan with addresses fits.
class Attempts {
 public:
  /// `is_hopeless`: it is known that no plan of any kind is within the budget. `limit_seconds`:
  /// the time limit that the user gave, of which `control` may be a part.
  Attempts(const Graph& graph, const strategy::Strategy& strategy, Bytes budget, bool is_hopeless,
           strategy::StrategyOptions options, double limit_seconds, Control& control)
      : graph_(graph),
        strategy_(strategy),
        budget_(budget),
        is_hopeless_(is_hopeless),
        options_(std::move(options)),
        limit_seconds_(limit_seconds),
        control_(control) {}

  Planned run() {
    planned_ = asked(graph_, budget_);
    if (!ask_within_budget()) explain();
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
    Bytes arena_bytes;
    bool optimal;  ///< no plan within the budget costs less, says the strategy
  };

  /// The strategy sees a plan's peak, and not its layout. So what it is asked for is moved: down by
  /// what was missing when the arena does not fit, with the plan that was too large to go on from,
  /// and up again when that was too much.
  bool ask_within_budget() {
    std::optional<Bytes> asked;
    if (!is_hopeless_) asked = budget_;
    for (int attempt = 0; asked && attempt < kAttempts; ++attempt) {
      std::optional<Found> found = decide(*asked);
      if (stopped_) break;
      if (!found) {
        asked = after_infeasible(*asked);
      } else if (found->arena_bytes > budget_) {
        too_large_ = std::move(found->executions);
        too_large_cost_ = found->plan.cost;
        asked = after_too_large(*asked, found->arena_bytes - budget_);
      } else {
        asked = after_fitting(*asked, std::move(*found));
      }
    }
    if (best_) return accept(std::move(*best_));
    return !control_.should_stop() && accept_leanest();
  }

  std::optional<Bytes> after_infeasible(Bytes asked) {
    lower_ = std::max(lower_, asked);
    return upper_ ? between() : std::nullopt;
  }

  std::optional<Bytes> after_too_large(Bytes asked, Bytes missing) {
    control_.report(fmt::format("{}: the layout is {} too large, asking for less", strategy_.name,
                                format_bytes(missing)));
    const double margin = best_ ? kLaterMargin : margin_;
    margin_ *= kMarginGrowth;
    upper_ = std::min(upper_.value_or(asked), asked);
    const auto counted = static_cast<double>(std::max(missing, budget_ / kLeastMissing));
    const Bytes less = asked - static_cast<Bytes>(margin * counted) - 1;
    return less > lower_ ? less : between();
  }

  std::optional<Bytes> after_fitting(Bytes asked, Found found) {
    lower_ = std::max(lower_, asked);
    offer(std::move(found));
    const bool is_far = is_far_from_bound(best_->plan.cost);
    const bool is_good = best_->plan.cost <= kGoodEnough * too_large_cost_;
    if (!upper_ || (is_good && !is_far)) return std::nullopt;
    return is_late(is_far ? 1 - kBoundShare : kLateShare) ? std::nullopt : between();
  }

  /// Halfway between what fits, or was too little for the strategy, and what was too much for the
  /// budget, as long as that is worth a try.
  std::optional<Bytes> between() const {
    const Bytes width = *upper_ - lower_;
    if (width < 2 || width < budget_ / kWorthATry) return std::nullopt;
    return lower_ + width / 2;
  }

  /// Whether too little time is left to improve what was found.
  bool is_late(double share = kLateShare) const {
    return Control::stop_requested() || control_.used_share() > share;
  }

  /// The last resort, with what is left of the time: the plan that needs the least. Asking for its
  /// arena succeeds.
  bool accept_leanest() {
    const bool stopped = stopped_;
    if (!smallest_peak_) decide(0);
    planned_.smallest_budget = smallest_peak_;
    if (!smallest_peak_ || control_.should_stop()) return false;
    std::optional<Found> found = decide(*smallest_peak_);
    stopped_ = stopped_ || stopped;
    if (!found) return false;
    if (found->arena_bytes <= budget_) return accept(with_less_spare_room(std::move(*found)));
    planned_.smallest_budget = found->arena_bytes;
    planned_.leanest = std::move(found->plan);
    planned_.leanest->strategy = strategy_.name;
    planned_.leanest->budget_bytes = found->arena_bytes;
    require_valid(graph_, *planned_.leanest);
    return false;
  }

  /// A plan with addresses; nothing when the strategy has none.
  std::optional<Found> decide(Bytes asked) {
    Control control = limited_control();
    strategy::Decision decision =
        strategy_.decide({graph_, asked, options_, control, too_large_, &known_order_, prices_});
    stopped_ = decision.outcome == strategy::Outcome::stopped;
    if (decision.certificate) prices_ = bounds::op_prices(*decision.certificate);
    if (decision.smallest_peak) smallest_peak_ = decision.smallest_peak;
    // A bound for less than the budget says nothing about the budget.
    if (asked >= budget_ && decision.lower_bound) {
      bound_ = std::max(bound_.value_or(0), *decision.lower_bound);
      bound_model_ = decision.bound_model;
      if (asked == budget_) planned_.certificate = std::move(decision.certificate);
    }
    if (decision.outcome != strategy::Outcome::optimal &&
        decision.outcome != strategy::Outcome::feasible) {
      return std::nullopt;
    }
    Plan plan = lowered(graph_, decision.executions);
    Found found = found_from(std::move(decision.executions), std::move(plan), Care::thorough);
    found.optimal = decision.outcome == strategy::Outcome::optimal && asked >= budget_;
    return best_to_lay_out(std::move(found), std::move(decision.alternatives));
  }

  /// The answer, or when its addresses do not fit the first alternative whose addresses do, or else
  /// the one that comes closest.
  Found best_to_lay_out(Found found, std::vector<std::vector<OpId>> alternatives) {
    const double good_enough = kGoodEnough * found.plan.cost;
    int doubtful = 0;
    for (std::vector<OpId>& other : alternatives) {
      if (found.arena_bytes <= budget_ || is_late()) break;
      Plan plan = lowered(graph_, other);
      // With little time, or some tried, only one that fits if its layout wastes no more; the last
      // one needs the least.
      const Bytes waste = found.arena_bytes - found.plan.peak_bytes;
      const bool is_doubtful = plan.peak_bytes + waste > budget_ && &other != &alternatives.back();
      if (is_doubtful && (++doubtful > kDoubtfulLayouts || is_late(kLayoutShare))) continue;
      Found next = found_from(std::move(other), std::move(plan), Care::quick);
      const bool is_dear = next.plan.cost > good_enough && !is_late(kLayoutShare);
      if (next.arena_bytes <= budget_ && is_dear) {
        offer(std::move(next));
        break;
      }
      if (next.arena_bytes < found.arena_bytes) found = std::move(next);
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
    const bool is_least = found.optimal ||
                          found.plan.cost <= bound_.value_or(planned_.keep_all_cost);
    if (!strategy_.may_lose_reruns || is_least || is_late()) return found;
    const Control part = share_of_time(control_, kSpareRoomShare);
    const packing::PackingGoal goal = goal_of(graph_, budget_, packing_work(Care::thorough));
    const double before = found.plan.cost;
    LaidOut better = without_needless_reruns(
        graph_, {std::move(found.plan), std::move(found.executions)}, goal, part);
    if (better.plan.cost < before) {
      control_.report(fmt::format("the arena has room for {:.3f}% less",
                                  100 * (before - better.plan.cost) / planned_.keep_all_cost));
    }
    const Bytes arena_bytes = better.plan.layout->arena_bytes;
    return {std::move(better.plan), std::move(better.executions), arena_bytes, found.optimal};
  }

  Found found_from(std::vector<OpId> executions, Plan lowered, Care care) const {
    // The work ends it mostly; on a busy machine, time, so that some is left to ask for less.
    const Control part = share_of_time(control_, care == Care::thorough ? 0.3 : 0.1);
    Plan plan = laid_out(graph_, std::move(lowered), budget_, packing_work(care), part);
    const Bytes arena_bytes = plan.layout->arena_bytes;
    return {std::move(plan), std::move(executions), arena_bytes, false};
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
    return share_of_time(control_, upper_ || lower_ >= 0 ? kLaterShare : kFirstShare);
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
    const bool closed = plan.lower_bound && plan.cost <= *plan.lower_bound * (1 + 1e-9);
    require_valid(graph_, plan);
    planned_.smallest_budget.reset();
    const bool optimal = closed || (found.optimal && plan.lower_bound);
    planned_.outcome = optimal ? strategy::Outcome::optimal : strategy::Outcome::feasible;
    planned_.plan = std::move(plan);
    return true;
  }

  bool is_far_from_bound(double cost) const {
    constexpr double kFar = 0.02;  // of what keep-all costs
    return bound_ && bound_model_ == "fixed-order" &&
           cost - *bound_ > kFar * planned_.keep_all_cost;
  }

  /// A bound that is far below what the plan costs gets some of the time that is left.
  void raise_bound(double cost) {
    if (!is_far_from_bound(cost) || !planned_.certificate) return;
    const double seconds =
        std::min(control_.left_seconds(), kBoundShare * control_.limit_seconds());
    if (control_.limit_seconds() > 0 && seconds <= 0) return;
    const Control part(control_, seconds,
                       [this](const std::string& message) { control_.report(message); });
    auto higher = bounds::raised(graph_, *planned_.certificate, part);
    if (higher == nullptr || higher->lower_bound > cost) return;
    bound_ = higher->lower_bound;
    planned_.certificate = std::move(higher);
  }

  /// Says why there is no plan, and what would do.
  void explain() {
    // More time cannot help where nothing fits; it could only tell more of what would.
    const bool may_exist = stopped_ && !is_hopeless_;
    if (may_exist || Control::stop_requested()) {
      planned_.outcome = strategy::Outcome::stopped;
      planned_.message = why_stopped();
      return;
    }
    planned_.outcome = strategy::Outcome::infeasible;
    planned_.why_not_less = why_not_less(graph_);
    planned_.message = fmt::format("infeasible: {}. {}", why_infeasible(), planned_.why_not_less);
  }

  std::string why_infeasible() const {
    if (!planned_.smallest_budget) {
      return fmt::format("{} finds no plan within {}", strategy_.name, in_full(budget_));
    }
    const std::string so_far =
        stopped_ ? fmt::format(" in the time limit of {} s", limit_seconds_) : "";
    return fmt::format("the smallest budget that {} reaches{} is {}", strategy_.name, so_far,
                       in_full(*planned_.smallest_budget));
  }

  std::string why_stopped() const {
    if (Control::stop_requested() || control_.limit_seconds() <= 0) {
      return fmt::format("{} was stopped before it found a plan within {}.", strategy_.name,
                         in_full(budget_));
    }
    const std::string reached =
        smallest_peak_ ? fmt::format(" It came down to {}.", in_full(*smallest_peak_)) : "";
    return fmt::format("{} found no plan within {} in the time limit of {} s.{} More time may do.",
                       strategy_.name, in_full(budget_), limit_seconds_, reached);
  }

  const Graph& graph_;
  const strategy::Strategy& strategy_;
  const Bytes budget_;
  const bool is_hopeless_;
  const strategy::StrategyOptions options_;
  const double limit_seconds_;
  Control& control_;
  Planned planned_;
  ordering::KnownOrder known_order_;
  std::vector<double> prices_;  ///< of the last answer's bound: see PlanRequest
  double margin_ = kFirstMargin;  ///< as long as nothing fits
  std::optional<double> bound_;
  std::string bound_model_;
  std::optional<Bytes> smallest_peak_;
  std::optional<Found> best_;
  std::optional<Bytes> upper_;  // the least asked for whose layout did not fit
  std::vector<OpId> too_large_;   // the last answer whose layout did not fit
  double too_large_cost_ = 0;
  Bytes lower_ = -1;            // the most asked for in vain, or whose layout did fit
  bool stopped_ = false;
};

/// The option of strategies whose answers depend on random numbers.
constexpr const char* kSeed = "seed";

bool is_improvable(const Planned& best) {
  if (Control::stop_requested()) return false;
  if (!best.plan) return true;
  const double least = std::max(best.plan->lower_bound.value_or(0), best.keep_all_cost);
  return best.outcome != strategy::Outcome::optimal && best.plan->cost > kGoodEnough * least;
}

/// The cheaper plan, and the higher bound where it is about the same plans; or where there is none,
/// the smaller budget.
Planned better_of(Planned a, Planned b) {
  if (!a.plan || !b.plan) {
    constexpr Bytes kMost = std::numeric_limits<Bytes>::max();
    const bool is_smaller = b.smallest_budget.value_or(kMost) < a.smallest_budget.value_or(kMost);
    return b.plan || (!a.plan && is_smaller) ? std::move(b) : std::move(a);
  }
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
  Searches(const Graph& graph, const strategy::Strategy& strategy, Bytes budget,
           strategy::StrategyOptions options, double limit_seconds)
      : graph_(graph),
        strategy_(strategy),
        budget_(budget),
        options_(std::move(options)),
        limit_seconds_(limit_seconds),
        is_hopeless_(budget < keep_all_reference(graph).peak_bytes &&
                     budget < bounds::budget_floor(graph)),
        has_luck_(strategy.may_lose_reruns && find_option(strategy, kSeed) != nullptr) {}

  /// Whether another search may find a better plan.
  bool may_gain() const { return has_luck_ && !is_hopeless_ && (!best_ || is_improvable(*best_)); }

  /// Uses up the limit of `control` where that may find better plans.
  void search_for(Control& control) {
    if (!best_) search_once(control);
    while (may_gain() && control.limit_seconds() > 0 && control.used_share() < kLateShare) {
      options_[kSeed] += 1;
      Control rest = share_of_time(control, 1);
      search_once(rest);
    }
  }

  Planned best() { return std::move(*best_); }

 private:
  void search_once(Control& control) {
    Attempts attempts(graph_, strategy_, budget_, is_hopeless_, options_, limit_seconds_, control);
    Planned next = attempts.run();
    best_ = best_ ? better_of(std::move(*best_), std::move(next)) : std::move(next);
  }

  const Graph& graph_;
  const strategy::Strategy& strategy_;
  const Bytes budget_;
  strategy::StrategyOptions options_;
  const double limit_seconds_;
  const bool is_hopeless_;
  const bool has_luck_;
  std::optional<Planned> best_;
};

}  // namespace

double Planned::overhead() const {
  if (!plan) return std::numeric_limits<double>::quiet_NaN();
  return keep_all_cost > 0 ? plan->cost / keep_all_cost - 1 : 0;
}

std::optional<double> Planned::least_overhead() const {
  if (!plan || !plan->lower_bound) return std::nullopt;
  return keep_all_cost > 0 ? *plan->lower_bound / keep_all_cost - 1 : 0;
}

std::optional<double> Planned::gap() const {
  if (!plan || !plan->lower_bound) return std::nullopt;
  if (plan->cost <= *plan->lower_bound) return 0;
  if (*plan->lower_bound <= 0) return std::nullopt;
  return plan->cost / *plan->lower_bound - 1;
}

Planned plan_within(const Graph& graph, const strategy::Strategy& strategy, Bytes budget_bytes,
                    const strategy::StrategyOptions& options, Control& control) {
  const Control clock;
  Searches searches(graph, strategy, budget_bytes, completed(strategy, options),
                    control.limit_seconds());
  double round = kFirstRound;
  for (; searches.may_gain() && round < control.left_seconds(); round *= kRoundGrowth) {
    Control part(control, round, [&](const std::string& message) { control.report(message); });
    searches.search_for(part);
  }
  searches.search_for(control);
  Planned best = searches.best();
  best.seconds = clock.elapsed_seconds();
  best.repeatable = !control.is_behind();
  if (best.plan) best.plan->seconds = best.seconds;
  return best;
}

Planned plan_of(const Graph& graph, std::span<const OpId> executions, std::string_view strategy,
                Bytes budget_bytes) {
  const Control clock;
  Planned planned = asked(graph, budget_bytes);
  Plan plan = laid_out(graph, lowered(graph, executions), budget_bytes);
  plan.strategy = strategy;
  const Bytes arena_bytes = plan.layout->arena_bytes;
  planned.seconds = plan.seconds = clock.elapsed_seconds();
  if (arena_bytes > budget_bytes) {
    planned.smallest_budget = arena_bytes;
    planned.why_not_less = why_not_less(graph);
    planned.message =
        fmt::format("infeasible: the {} plan needs an arena of {}, its peak is {}. {}", strategy,
                    in_full(arena_bytes), in_full(plan.peak_bytes), planned.why_not_less);
    plan.budget_bytes = arena_bytes;
    require_valid(graph, plan);
    planned.leanest = std::move(plan);
    return planned;
  }
  plan.budget_bytes = budget_bytes;
  require_valid(graph, plan);
  planned.outcome = strategy::Outcome::feasible;
  planned.plan = std::move(plan);
  return planned;
}

}  // namespace lowtide::planner
