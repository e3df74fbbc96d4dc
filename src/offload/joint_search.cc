#include "offload/joint_search.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string>
#include <utility>

#include "base/time_share.h"
#include "graph/permuted.h"
#include "layout/sections.h"
#include "offload/division.h"
#include "offload/residents.h"
#include "offload/schedule.h"
#include "offload/waits.h"
#include "plan/replay.h"
#include "planner/realize.h"
#include "remat/stage_graph.h"

namespace lowtide::offload {
namespace {

using planner::Planned;
using strategy::Outcome;

/// Of the waits that a value's copies have a part in: what its price grows by.
constexpr double kPriceOfWaits = 0.7;
constexpr int kRoundsWithoutGain = 3;
/// Seconds of the first round of a search, and how much longer each next one is.
constexpr double kFirstRound = 0.3, kRoundGrowth = 4;
/// Of a round: a search that uses less ends by itself, and a longer one finds nothing else.
constexpr double kUnlimited = 0.1;
/// Of what is left: for one search.
constexpr double kSearchShare = 0.06;
/// Of that limit: for the plan of the fewest bytes where no other is found.
constexpr double kShareOfSmallest = 1.0 / 3;
/// Beside the work that a search counts: nanoseconds for each op, and a share of what it counts.
constexpr double kPerOp = 80'000, kUncounted = 1;
constexpr int kLayoutTries = 4;
/// Of what is left: for the addresses of one plan.
constexpr double kPackingShare = 0.15;
/// Of the bytes of the residents that may move: how many of them do.
constexpr std::array kResidentShares{0.5, 1.0, 0.25, 0.75};
/// Of a round, to try each share.
constexpr double kShareOfTry = 0.12;

/// Of a mean copy, if as much goes to the first place as it has room for.
Lanes typical_lanes(const Graph& graph, const Slower& slower) {
  if (!slower.second || !slower.bytes) return slower.lanes;
  Bytes all = 0;
  for (const Tensor& tensor : graph.tensors()) {
    if (tensor.alias_of == kNone) all += tensor.bytes;
  }
  const double share = std::min(
      1.0, static_cast<double>(*slower.bytes) / static_cast<double>(std::max<Bytes>(all, 1)));
  const auto mean = [&](const Lane& first, const Lane& second) {
    return Lane{std::lerp(second.latency, first.latency, share),
                std::lerp(second.per_byte, first.per_byte, share)};
  };
  const Lanes& second = slower.second->lanes;
  return {mean(slower.lanes.out, second.out), mean(slower.lanes.in, second.in)};
}

}  // namespace

/// How the values that move, and the memory beside copies, are chosen at first.
struct JointSearch::Choice {
  double worth;  ///< a value moves if its op takes so many times the time of its copies, or more
  double room;   ///< of the bytes beside residents: the share that values get; copies get the rest
};

JointSearch::JointSearch(const Graph& graph, Bytes budget, const Slower& slower, Ways ways,
                         Bytes reserved)
    : graph_(graph),
      budget_(budget),
      slower_(slower),
      ways_(ways),
      reserved_(reserved),
      typical_lanes_(typical_lanes(graph, slower)),
      first_prices_(graph, typical_lanes_, slower.all_bytes()),
      least_cost_(remat::StageGraph(graph).required_cost()) {}

void JointSearch::offer(Planned planned) {
  repeatable_ = repeatable_ && planned.repeatable;
  const bool is_better = planned.plan && (!best_.plan || planned.plan->cost < best_.plan->cost);
  if (is_better || (!best_.plan && !best_.smallest_plan)) best_ = std::move(planned);
}

void JointSearch::run(bool reruns, const Control& control) {
  in_rounds(control, [&] { try_choices(reruns); });
}

void JointSearch::run_with_residents(const Control& control) {
  early_order_ = order_of_early_writes(graph_);
  early_.emplace(permuted(graph_, early_order_));
  const std::vector<TensorId> all = residents_by_worth(graph_, typical_lanes_);
  in_rounds(control, [&] {
    choose_residents(all);
    if (!residents_.empty()) try_choices(/*reruns=*/false);
  });
}

/// Searches for the limit of `control` in rounds of 0.3 s, 1.2 s, 4.8 s and so on. A longer limit
/// goes on where a shorter one ends, so its answer is no worse.
void JointSearch::in_rounds(const Control& control, const std::function<void()>& search) {
  whole_ = control;
  for (double seconds = kFirstRound;; seconds *= kRoundGrowth) {
    control_ = whole_.limit_seconds() > 0 ? part_of_time(whole_, seconds) : whole_;
    search();
    const bool has_limited = control_.used_share() > kUnlimited;
    if (!has_limited || is_good_enough() || whole_.should_stop()) break;
  }
  repeatable_ = repeatable_ && !whole_.is_behind();
}

void JointSearch::try_choices(bool reruns) {
  constexpr auto kChoices = std::to_array<Choice>({{0.3, 0.97},
                                                   {0.1, 0.9},
                                                   {1, 0.97},
                                                   {0, 0.9},
                                                   {0.3, 0.8},
                                                   {3, 1},
                                                   {0.03, 0.97},
                                                   {0.3, 0.65}});
  using enum FirstPrices::Together;
  const auto has_price = [](const std::optional<double>& price) { return price.has_value(); };
  for (const auto& [worth, room] : kChoices) {
    const double least_worth = reruns ? worth : 0;
    const auto fewest = first_prices_.choose(least_worth, residents_, all_at_once);
    improve_prices(fewest, room, reruns);
    const auto most = first_prices_.choose(least_worth, residents_, in_turns);
    if (std::ranges::count_if(most, has_price) > std::ranges::count_if(fewest, has_price)) {
      improve_prices(most, room, reruns);
    }
  }
}

/// Of several shares of the residents, the best by a short trial of each with moves alone.
void JointSearch::choose_residents(std::span<const TensorId> all) {
  constexpr double kRoomOfTrial = 0.97;
  constexpr double kNoPlan = std::numeric_limits<double>::infinity();
  const Control round = control_;
  std::vector<TensorId> best;
  std::size_t tried = 0;  // residents
  double least = kNoPlan;
  for (double share : kResidentShares) {
    std::vector<TensorId> some = first_bytes(all, share);
    if (some.size() == tried || floor_without(some) > budget_) continue;
    tried = some.size();
    residents_ = some;
    control_ = share_of_time(round, kShareOfTry);
    const double cost = improve_prices(
        first_prices_.choose(0, residents_, FirstPrices::Together::all_at_once), kRoomOfTrial,
        /*reruns=*/false);
    // Where no share has found a plan, the most that may move leaves the most memory.
    if (cost < least || (least == kNoPlan && some.size() > best.size())) best = std::move(some);
    least = std::min(least, cost);
  }
  residents_ = std::move(best);
  control_ = round;
}

bool JointSearch::is_good_enough() const {
  return best_.plan && best_.plan->cost <= kGoodEnough * least_cost_;
}

Planned JointSearch::take() {
  // What reruns alone cannot do is no proof about moves.
  if (!best_.plan && ways_ != Ways::rerun) best_ = refusal(std::move(best_));
  best_.repeatable = repeatable_;
  return std::move(best_);
}

/// The first of them, until they have that share of their bytes, or slower memory is full.
std::vector<TensorId> JointSearch::first_bytes(std::span<const TensorId> all, double share) const {
  Bytes sum = 0;
  for (TensorId id : all) sum += graph_.tensor(id).bytes;
  const auto wanted = static_cast<Bytes>(share * static_cast<double>(sum));
  Bytes left = slower_.all_bytes().value_or(std::numeric_limits<Bytes>::max());
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

Bytes JointSearch::floor_without(std::span<const TensorId> residents) const {
  std::vector<bool> away(graph_.tensors().size());
  for (TensorId id : residents) away[id] = true;
  return structural_floor(graph_, away).bytes;
}

/// A load has the price of what was waited for it, so that the next search moves other values.
/// Returns the cost of the best plan that it finds, infinity if it finds none. What was found
/// before does not matter to it: so no search ends sooner because of another. Nor does one end
/// sooner because a plan takes more slower memory than there is.
double JointSearch::improve_prices(std::vector<std::optional<double>> prices, double room,
                                   bool reruns) {
  double best = std::numeric_limits<double>::infinity(), least = best;
  for (int rounds = 0; rounds < kRoundsWithoutGain && !is_over(); ++rounds) {
    const std::optional<Plan> plan = plan_with_prices(prices, budget_of(room), reruns);
    if (!plan) return best;
    const std::vector<double> waited = time_of_waits(graph_, *plan);
    for (TensorId id = 0; id < graph_.num_tensors(); ++id) {
      if (prices[id]) *prices[id] += kPriceOfWaits * waited[id];
    }
    if (plan->cost < least) rounds = -1;
    least = std::min(least, plan->cost);
    if (plan->slower && !slower_.has_room(*plan->slower)) continue;
    best = std::min(best, plan->cost);
    keep_if_better(*plan);
  }
  return best;
}

/// Nothing when no plan is found, or its addresses do not fit.
std::optional<Plan> JointSearch::plan_with_prices(std::span<const std::optional<double>> prices,
                                                  Bytes room, bool reruns) {
  const LoadGraph loads = graph_with_loads(prices, reruns);
  const Planned found = planned(loads.graph, room);
  if (!found.plan) return std::nullopt;
  Bytes peak = budget_;
  for (int tries = 0; tries < kLayoutTries && peak >= found.plan->peak_bytes; ++tries) {
    Plan plan = planner::with_addresses(
        graph_, schedule_in_places(graph_, loads, *found.plan, slower_, peak, kHurries, control_),
        budget_, work_of_packing(), control_);
    const Bytes excess = layout::needed_bytes(graph_, plan) - budget_;
    if (excess <= 0) return plan;  // and so is its peak, which is no higher
    peak = std::max(plan.peak_bytes, peak) - excess;
  }
  return std::nullopt;
}

std::int64_t JointSearch::work_of_packing() const {
  if (control_.limit_seconds() <= 0) return packing::kPackingWork;
  constexpr double kNanoseconds = 1e9;
  const double left = kPackingShare * std::max(0.0, control_.left_seconds());
  return std::min(packing::kPackingWork,
                  static_cast<std::int64_t>(left * kNanoseconds / packing::kPackingNanoseconds));
}

/// One search, as the next one with other prices gains more than a second one with these. Where it
/// finds no plan, that of the fewest bytes may be within the budget.
Planned JointSearch::planned(const Graph& loads, Bytes room) const {
  const strategy::Strategy& strategy = strategy::default_strategy();
  planner::Search search{.graph = loads,
                         .strategy = strategy,
                         .budget_bytes = room,
                         .reserved_bytes = 0,
                         .for_smallest = false,
                         .options = strategy::default_options(strategy),
                         .limit_seconds = share_of_seconds(control_, kSearchShare)};
  Planned found = search_once(search, search.limit_seconds);
  if (found.plan || is_over()) return found;
  search.for_smallest = true;
  return search_once(search, kShareOfSmallest * search.limit_seconds);
}

/// Also counts the work that the search does not count itself.
Planned JointSearch::search_once(const planner::Search& search, double seconds) const {
  const double before = control_.used_seconds();
  Control part = part_of_time(control_, seconds);
  Planned found = planner::search_once(search, part);
  constexpr double kNanoseconds = 1e9;
  control_.count(kPerOp * static_cast<double>(search.graph.num_ops()) +
                 kUncounted * kNanoseconds * (control_.used_seconds() - before));
  return found;
}

/// With residents that move, writes come early.
LoadGraph JointSearch::graph_with_loads(std::span<const std::optional<double>> prices,
                                        bool reruns) const {
  const Reruns which = reruns ? Reruns::of_others : Reruns::none;
  if (residents_.empty()) return with_loads(graph_, prices, which);
  LoadGraph loads = with_loads(*early_, prices, which);
  for (OpId& id : loads.original) {
    if (id != kNone) id = early_order_[id];
  }
  return loads;
}

Bytes JointSearch::budget_of(double room) const {
  Bytes residents = graph_.resident_bytes();
  for (TensorId id : residents_) residents -= graph_.tensor(id).bytes;
  return residents + static_cast<Bytes>(room * static_cast<double>(budget_ - residents));
}

void JointSearch::keep_if_better(Plan plan) {
  if (best_.plan && plan.cost >= best_.plan->cost) return;
  plan.strategy = name(ways_);
  plan.budget_bytes = budget_;
  planner::require_valid(graph_, plan);
  Planned planned = nothing_planned();
  planned.outcome = Outcome::feasible;
  planned.plan = std::move(plan);
  best_ = std::move(planned);
  control_.report(fmt::format("with slower memory: overhead {:.2f} %", 100 * best_.overhead()));
}

Planned JointSearch::nothing_planned() const {
  Planned planned = planner::nothing_planned(graph_, budget_);
  planned.reserved_bytes = reserved_;
  return planned;
}

/// Says why no plan was found. `reruns`: the refusal of reruns alone, where they were tried.
Planned JointSearch::refusal(Planned reruns) const {
  Planned planned = nothing_planned();
  if (reruns.smallest_budget) {
    planned.smallest_budget = *reruns.smallest_budget + reruns.reserved_bytes - reserved_;
  }
  planned.smallest_plan = std::move(reruns.smallest_plan);
  const Bytes floor = floor_of_moves(graph_, slower_) - slower_.all_buffers();
  planned.floor_bytes = floor;
  const std::string within = planner::in_full(budget_ + reserved_);
  if (Control::stop_requested() || (control_.should_stop() && budget_ >= floor)) {
    planned.outcome = Outcome::stopped;
    planned.message = fmt::format(
        "the search was stopped, or its time was over, before it found a plan within {}.", within);
    return planned;
  }
  planned.why_not_less =
      fmt::format("Every plan needs {} at least.", planner::in_full(floor + reserved_));
  planned.message =
      fmt::format("infeasible: no plan that moves values is found within {}{}.{} {}", within,
                  limits_of_moves(), reached_by_reruns(planned), planned.why_not_less);
  return planned;
}

/// What limits the moves beside the budget.
std::string JointSearch::limits_of_moves() const {
  std::string text;
  if (slower_.all_buffers() != 0) {
    text += fmt::format(", of which copies need {} for their buffers",
                        planner::in_full(slower_.all_buffers()));
  }
  if (const std::optional<Bytes> bytes = slower_.all_bytes()) {
    text += fmt::format(", with room for {} in slower memory", planner::in_full(*bytes));
  }
  return text;
}

std::string JointSearch::reached_by_reruns(const Planned& planned) const {
  if (!planned.smallest_budget) return "";
  return fmt::format(" The smallest budget that reruns reach is {}.",
                     planner::in_full(*planned.smallest_budget + reserved_));
}

}  // namespace lowtide::offload
