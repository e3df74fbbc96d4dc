#include "offload/joint.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/time_share.h"
#include "certify/certificate.h"
#include "graph/permuted.h"
#include "offload/bound.h"
#include "offload/loads.h"
#include "offload/published.h"
#include "offload/residents.h"
#include "offload/schedule.h"
#include "offload/waits.h"
#include "plan/replay.h"
#include "planner/realize.h"

namespace lowtide::offload {
namespace {

using planner::Planned;
using strategy::Outcome;

constexpr std::string_view kSaveOnCpu = "save-on-cpu", kCapuchin = "capuchin";

/// How the values that move, and the memory beside copies, are chosen at first.
struct Choice {
  double worth;  ///< a value moves if its op takes so many times the time of its copies, or more
  double room;   ///< of the bytes beside residents: the share that values get; copies get the rest
};
constexpr std::array kChoices = std::to_array<Choice>(
    {{0.3, 0.97}, {0.1, 0.9}, {1, 0.97}, {0, 0.9}, {0.3, 0.8}, {3, 1}, {0.03, 0.97}, {0.3, 0.65}});

/// Of the time of its copies: the price of a load, before anything is known of its waits.
constexpr double kFirstPrice = 0.05;
/// Values that rest for long are moved first: their copies have the most time. The factor of the
/// price of one that does not rest; of one that rests all the time it is 1 less.
constexpr double kShortRest = 1.5;
/// Of the waits that a value's copies have a part in: what its price grows by.
constexpr double kPriceOfWaits = 0.7;
constexpr int kRoundsWithoutGain = 3;
/// Of what is left: for one search.
constexpr double kSearchShare = 0.06;
constexpr int kLayoutTries = 4;
/// Of the bytes of the residents that may move: how many of them do.
constexpr std::array kResidentShares{0.5, 1.0, 0.25, 0.75};
/// Of a whole limit, to try each share.
constexpr double kShareOfTry = 0.12;
/// A plan is good enough when it costs no more than this times what keeping everything costs.
constexpr double kGoodEnough = 1.0001;

double time_of_copies(const Lanes& lanes, Bytes bytes) {
  return lanes.out.time(bytes) + lanes.in.time(bytes);
}

class Search {
 public:
  Search(const Graph& graph, Bytes budget, const Slower& slower, Ways ways, Bytes reserved)
      : graph_(graph),
        budget_(budget),
        slower_(slower),
        ways_(ways),
        reserved_(reserved),
        movable_(movable(graph)) {
    begins_.push_back(0);
    for (const Op& op : graph.ops()) begins_.push_back(begins_.back() + op.cost);
    total_cost_ = std::max(begins_.back(), std::numeric_limits<double>::min());
  }

  void offer(Planned planned) {
    repeatable_ = repeatable_ && planned.repeatable;
    const bool is_better = planned.plan && (!best_.plan || planned.plan->cost < best_.plan->cost);
    if (is_better || (!best_.plan && !best_.smallest_plan)) best_ = std::move(planned);
  }

  /// Uses up the limit where that may find better plans.
  void run(bool reruns, Control control) {
    control_ = std::move(control);
    for (const Choice& choice : kChoices) improve_prices(choice, reruns);
    repeatable_ = repeatable_ && !control_.is_behind();
  }

  /// The same with residents that move: the best of several shares of them, with moves alone.
  void run_with_residents(const Control& control) {
    const std::vector<TensorId> all = residents_by_worth(graph_, slower_.lanes);
    early_order_ = order_of_early_writes(graph_);
    early_.emplace(permuted(graph_, early_order_));
    constexpr double kNoPlan = std::numeric_limits<double>::infinity();
    std::vector<TensorId> best;
    std::size_t tried = 0;  // residents
    double least = kNoPlan;
    for (double share : kResidentShares) {
      std::vector<TensorId> some = first_bytes(all, share);
      if (some.size() == tried || floor_without(some) > budget_) continue;
      tried = some.size();
      residents_ = some;
      control_ = share_of_time(control, kShareOfTry);
      const double cost = improve_prices(kChoices.front(), /*reruns=*/false);
      // Where no share has found a plan, the most that may move leaves the most memory.
      if (cost < least || (least == kNoPlan && some.size() > best.size())) best = std::move(some);
      least = std::min(least, cost);
    }
    if (best.empty()) return;
    residents_ = std::move(best);
    run(/*reruns=*/false, share_of_time(control, 1));
  }

  bool is_good_enough() const {
    return best_.plan && best_.plan->cost <= kGoodEnough * best_.keep_all_cost;
  }

  Planned take() {
    // What reruns alone cannot do is no proof about moves.
    if (!best_.plan && ways_ != Ways::rerun) best_ = refusal(std::move(best_));
    best_.repeatable = repeatable_;
    return std::move(best_);
  }

 private:
  bool is_over() const { return is_good_enough() || control_.should_stop(); }

  /// The first of them, until they have that share of their bytes, or slower memory is full.
  std::vector<TensorId> first_bytes(std::span<const TensorId> all, double share) const {
    Bytes sum = 0;
    for (TensorId id : all) sum += graph_.tensor(id).bytes;
    const auto wanted = static_cast<Bytes>(share * static_cast<double>(sum));
    Bytes left = slower_.bytes.value_or(std::numeric_limits<Bytes>::max());
    std::vector<TensorId> some;
    for (Bytes taken = 0; TensorId id : all) {
      const Bytes bytes = graph_.tensor(id).bytes;
      if (taken >= wanted) break;
      if (align_up(bytes, kCopyAlignment) > left) continue;
      left -= align_up(bytes, kCopyAlignment);
      taken += bytes;
      some.push_back(id);
    }
    return some;
  }

  Bytes floor_without(std::span<const TensorId> residents) const {
    std::vector<bool> away(graph_.tensors().size());
    for (TensorId id : residents) away[id] = true;
    return structural_floor(graph_, away).bytes;
  }

  /// A load has the price of what was waited for it, so that the next search moves other values.
  /// Returns the cost of the best plan that it finds, infinity if it finds none. What was found
  /// before does not matter to it: so no search ends sooner because of another.
  double improve_prices(const Choice& choice, bool reruns) {
    double best = std::numeric_limits<double>::infinity();
    std::vector<std::optional<double>> prices = first_prices(reruns ? choice.worth : 0);
    for (int rounds = 0; rounds < kRoundsWithoutGain && !is_over(); ++rounds) {
      const std::optional<Plan> plan = plan_with_prices(prices, budget_of(choice.room), reruns);
      if (!plan) return best;
      const std::vector<double> waited = time_of_waits(graph_, *plan);
      for (TensorId id = 0; id < graph_.num_tensors(); ++id) {
        if (prices[id]) *prices[id] += kPriceOfWaits * waited[id];
      }
      if (!has_room(*plan)) continue;
      if (plan->cost < best) rounds = -1;
      best = std::min(best, plan->cost);
      keep_if_better(*plan);
    }
    return best;
  }

  bool has_room(const Plan& plan) const {
    return !plan.slower || !slower_.bytes || plan.slower->bytes <= *slower_.bytes;
  }

  /// Nothing when no plan is found, or its addresses do not fit.
  std::optional<Plan> plan_with_prices(std::span<const std::optional<double>> prices, Bytes room,
                                       bool reruns) {
    const LoadGraph loads = graph_with_loads(prices, reruns);
    Control part = share_of_time(control_, kSearchShare);
    const Planned found =
        planner::plan_within(loads.graph, strategy::default_strategy(), room, {}, part);
    if (!found.plan) return std::nullopt;
    Bytes peak = budget_;
    for (int tries = 0; tries < kLayoutTries && peak >= found.plan->peak_bytes; ++tries) {
      Plan plan = planner::with_addresses(
          graph_, schedule(graph_, loads, *found.plan, slower_.lanes, peak, kHurries), budget_,
          packing::kPackingWork, control_);
      const Bytes excess = plan.layout->arena_bytes - budget_;
      if (excess <= 0) return plan;  // and so is its peak, which is no higher
      peak = std::max(plan.peak_bytes, peak) - excess;
    }
    return std::nullopt;
  }

  /// With residents that move, writes come early.
  LoadGraph graph_with_loads(std::span<const std::optional<double>> prices, bool reruns) const {
    if (residents_.empty()) return with_loads(graph_, prices, reruns);
    LoadGraph loads = with_loads(*early_, prices, reruns);
    for (OpId& id : loads.original) {
      if (id != kNone) id = early_order_[id];
    }
    return loads;
  }

  Bytes budget_of(double room) const {
    Bytes residents = graph_.resident_bytes();
    for (TensorId id : residents_) residents -= graph_.tensor(id).bytes;
    return residents + static_cast<Bytes>(room * static_cast<double>(budget_ - residents));
  }

  void keep_if_better(Plan plan) {
    if (best_.plan && plan.cost >= best_.plan->cost) return;
    plan.strategy = ways_ == Ways::both ? "search+offload" : "offload";
    plan.budget_bytes = budget_;
    planner::require_valid(graph_, plan);
    Planned planned = planner::nothing_planned(graph_, budget_);
    planned.outcome = Outcome::feasible;
    planned.plan = std::move(plan);
    best_ = std::move(planned);
    control_.report(fmt::format("with slower memory: overhead {:.2f} %", 100 * best_.overhead()));
  }

  /// Says why no plan was found. `reruns`: the refusal of reruns alone, where they were tried.
  Planned refusal(Planned reruns) const {
    Planned planned = planner::nothing_planned(graph_, budget_);
    planned.smallest_budget = reruns.smallest_budget;
    planned.smallest_plan = std::move(reruns.smallest_plan);
    const Bytes floor = floor_of_moves(graph_, slower_);
    planned.floor_bytes = floor;
    const std::string within = planner::in_full(budget_ + reserved_);
    if (Control::stop_requested() || (control_.should_stop() && budget_ >= floor)) {
      planned.outcome = Outcome::stopped;
      planned.message = fmt::format(
          "the search was stopped, or its time was over, before it found a plan within {}.",
          within);
      return planned;
    }
    planned.why_not_less =
        fmt::format("Every plan needs {} at least.", planner::in_full(floor + reserved_));
    planned.message = fmt::format("infeasible: no plan that moves values is found within {}.{} {}",
                                  within, reached_by_reruns(planned), planned.why_not_less);
    return planned;
  }

  std::string reached_by_reruns(const Planned& planned) const {
    if (!planned.smallest_budget) return "";
    return fmt::format(" The smallest budget that reruns reach is {}.",
                       planner::in_full(*planned.smallest_budget + reserved_));
  }

  /// The dearest values first, until slower memory is full.
  std::vector<std::optional<double>> first_prices(double least_worth) const {
    std::vector<TensorId> chosen;
    for (TensorId id = 0; id < graph_.num_tensors(); ++id) {
      // Without a limit, it takes nothing from others to let the search decide.
      const bool may = movable_[id] && (!slower_.bytes || rests(id));
      if (may && worth(id) >= least_worth) chosen.push_back(id);
    }
    std::ranges::stable_sort(chosen, std::ranges::greater{},
                             [&](TensorId id) { return worth(id); });
    std::vector<std::optional<double>> prices(graph_.tensors().size());
    Bytes left = slower_.bytes.value_or(std::numeric_limits<Bytes>::max());
    for (TensorId id : residents_) {
      const Bytes bytes = graph_.tensor(id).bytes;
      left -= std::min(left, align_up(bytes, kCopyAlignment));
      prices[id] = kFirstPrice * slower_.lanes.in.time(bytes);
    }
    for (TensorId id : chosen) {
      const Bytes bytes = graph_.tensor(id).bytes;
      if (bytes > left) continue;
      left -= std::min(left, align_up(bytes, kCopyAlignment));
      prices[id] = kFirstPrice * time_of_copies(slower_.lanes, bytes) *
                   (kShortRest - longest_rest(id) / total_cost_);
    }
    return prices;
  }

  /// Whether other ops stand between two uses of it, so that it can be away meanwhile.
  bool rests(TensorId id) const {
    const std::vector<OpId> uses = uses_of(id);
    return std::ranges::adjacent_find(uses, [](OpId a, OpId b) { return b > a + 1; }) != uses.end();
  }

  /// The longest time of other ops between two uses of it, where each op runs once.
  double longest_rest(TensorId id) const {
    const std::vector<OpId> uses = uses_of(id);
    double longest = 0;
    for (std::size_t i = 1; i < uses.size(); ++i) {
      longest = std::max(longest, begins_[uses[i]] - begins_[uses[i - 1] + 1]);
    }
    return longest;
  }

  /// The ops that make it or read it or a view of it, in the graph's order.
  std::vector<OpId> uses_of(TensorId id) const {
    std::vector<OpId> uses{graph_.producer(id)};
    const auto add_readers = [&](TensorId of) {
      for (OpId reader : graph_.readers(of)) {
        if (!graph_.is_view_op(reader)) uses.push_back(reader);
      }
    };
    add_readers(id);
    std::ranges::for_each(graph_.views(id), add_readers);
    std::ranges::sort(uses);
    uses.erase(std::ranges::unique(uses).begin(), uses.end());
    return uses;
  }

  double worth(TensorId id) const {
    const double copies = time_of_copies(slower_.lanes, graph_.tensor(id).bytes);
    const double rerun = graph_.op(graph_.producer(id)).cost;
    return copies > 0 ? rerun / copies : std::numeric_limits<double>::infinity();
  }

  const Graph& graph_;
  const Bytes budget_;
  const Slower& slower_;
  const Ways ways_;
  const Bytes reserved_;
  Control control_;
  std::vector<bool> movable_;
  std::vector<TensorId> residents_;  ///< that move
  std::vector<OpId> early_order_;    ///< of the graph's ops, where residents move
  std::optional<Graph> early_;       ///< in that order
  std::vector<double> begins_;  ///< when each op begins where each runs once, and the end of all
  double total_cost_;
  bool repeatable_ = true;
  Planned best_;
};

Lane lane_of(const slower::Speed& speed) {
  constexpr double kMicroseconds = 1e6;
  return {speed.latency_seconds * kMicroseconds,
          speed.bytes_per_second > 0 ? kMicroseconds / speed.bytes_per_second : 0};
}

/// Everything kept: the answer where it fits.
Planned all_kept(const Graph& graph, Bytes budget) {
  std::vector<OpId> order(graph.ops().size());
  std::iota(order.begin(), order.end(), 0);
  return planner::plan_of(graph, order, "keep-all", budget);
}

/// A plan by a rule of others, which finds no other where that one does not fit.
Planned by_rule(const Graph& graph, Bytes budget, const Slower& slower, Ways ways, Bytes reserved) {
  const bool saves_all = ways == Ways::save_on_cpu;
  Plan plan = planner::with_addresses(
      graph, saves_all ? save_on_cpu(graph, slower.lanes) : capuchin(graph, budget, slower.lanes),
      budget);
  plan.strategy = saves_all ? kSaveOnCpu : kCapuchin;
  const Bytes needed = plan.layout->arena_bytes;
  plan.budget_bytes = std::max(budget, needed);
  planner::require_valid(graph, plan);
  Planned planned = planner::nothing_planned(graph, budget);
  const bool has_room = !plan.slower || !slower.bytes || plan.slower->bytes <= *slower.bytes;
  if (needed <= budget && has_room) {
    planned.outcome = Outcome::feasible;
    planned.plan = std::move(plan);
    return planned;
  }
  planned.message = fmt::format("infeasible: {} needs {} of memory and {} of slower memory.",
                                plan.strategy, planner::in_full(needed + reserved),
                                planner::in_full(plan.slower ? plan.slower->bytes : 0));
  if (!has_room) return planned;
  planned.smallest_budget = needed;
  planned.smallest_plan = std::move(plan);
  return planned;
}

/// Of a whole limit, in addition to those of the searches.
constexpr double kShareOfBound = 0.3;

/// With moves alone, and then with both ways where that is wanted.
void search_with_residents(Search& search, Ways ways, const Control& control) {
  if (search.is_good_enough()) return;
  search.run_with_residents(control.renewed());
  if (ways == Ways::both) search.run(/*reruns=*/true, control.renewed());
}

/// The best plan of the ways. Each has the whole limit, so that more ways give no worse plan.
Planned searched(const Graph& graph, Bytes budget, const Slower& slower, Ways ways,
                 const Control& control, Bytes reserved) {
  if (ways == Ways::save_on_cpu || ways == Ways::capuchin) {
    return by_rule(graph, budget, slower, ways, reserved);
  }
  Search search(graph, budget, slower, ways, reserved);
  const bool may_move_residents = slower.residents && ways != Ways::rerun;
  const bool must_move_residents = may_move_residents && structural_floor(graph).bytes > budget;
  if (must_move_residents) {
    search_with_residents(search, ways, control);
    return search.take();
  }
  if (ways != Ways::rerun) search.run(/*reruns=*/false, control.renewed());
  if (ways != Ways::move && !search.is_good_enough()) {
    Control whole = control.renewed();
    search.offer(
        planner::plan_within(graph, strategy::default_strategy(), budget, {}, whole, reserved));
  }
  if (ways == Ways::both) search.run(/*reruns=*/true, control.renewed());
  if (may_move_residents) search_with_residents(search, ways, control);
  return search.take();
}

/// In place of a bound for plans that only rerun. Without a plan there is none.
void add_bound(const Graph& graph, const Lanes& lanes, Planned& planned, const Control& control) {
  planned.certificate.reset();
  if (!planned.plan) return;
  Plan& plan = *planned.plan;
  const Control whole = control.renewed();
  Control part = share_of_time(whole, kShareOfBound);
  planned.certificate = lower_bound(graph, planned.budget_bytes, lanes, plan, part);
  plan.lower_bound = planned.certificate->lower_bound;
  plan.model = planned.certificate->chain ? "any-order" : "fixed-order";
  constexpr double kSame = 1 + 1e-9;
  planned.outcome = plan.cost <= kSame * *plan.lower_bound ? Outcome::optimal : Outcome::feasible;
}

}  // namespace

Ways ways_of(std::string_view strategy) {
  if (strategy.empty()) return Ways::both;
  if (strategy == "search") return Ways::rerun;
  if (strategy == "offload") return Ways::move;
  if (strategy == kSaveOnCpu) return Ways::save_on_cpu;
  if (strategy == kCapuchin) return Ways::capuchin;
  throw InputError(fmt::format("the strategy {} does not know of slower memory; name search, which "
                               "only reruns, offload, which only moves, {} or {}, the rules of "
                               "others, or none for reruns and moves together",
                               strategy, kCapuchin, kSaveOnCpu));
}

Bytes floor_of_moves(const Graph& graph, const Slower& slower) {
  if (!slower.residents) return structural_floor(graph).bytes;
  return structural_floor(graph, movable_residents(graph)).bytes;
}

Lanes lanes_of(const slower::LaneSpeed& speed) {
  return {lane_of(speed.out), lane_of(speed.in), speed.shared};
}

std::string describe(const Lanes& lanes) {
  const auto speed = [](const Lane& lane) {
    constexpr double kBytesPerMicrosecond = 1e-3;  // of one GB/s
    return lane.per_byte > 0 ? fmt::format("{:.2g} GB/s", kBytesPerMicrosecond / lane.per_byte)
                             : std::string("no limit");
  };
  return fmt::format("{} out, {} in{}", speed(lanes.out), speed(lanes.in),
                     lanes.shared ? ", one at a time" : "");
}

Planned plan_with(const Graph& graph, Bytes budget, const Slower& slower, Ways ways,
                  Control& control, Bytes reserved_bytes) {
  const Control clock;
  Planned best = all_kept(graph, budget);
  if (!best.plan) best = searched(graph, budget, slower, ways, control, reserved_bytes);
  if (ways != Ways::rerun) add_bound(graph, slower.lanes, best, control);
  best.reserved_bytes = reserved_bytes;
  best.seconds = clock.elapsed_seconds();
  if (best.plan) best.plan->seconds = best.seconds;
  return best;
}

}  // namespace lowtide::offload
