#include "offload/joint.h"

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "base/time_share.h"
#include "offload/loads.h"
#include "offload/schedule.h"
#include "plan/replay.h"
#include "planner/realize.h"

namespace lowtide::offload {
namespace {

using planner::Planned;
using strategy::Outcome;

/// One choice of what moves, for how much, and beside what.
struct Choice {
  double worth;  ///< a value moves if its op takes so many times the time of its copies, or more
  double price;  ///< of a load, as a share of the time of its copies
  double room;   ///< of the bytes beside residents: the share that values get; copies get the rest
};

/// Each of its three numbers in turn takes these values, while the others stay.
constexpr std::array kWorths{0.0, 0.1, 0.3, 1.0, 3.0};
constexpr std::array kPrices{0.02, 0.2, 0.6, 1.0};
constexpr std::array kRooms{0.97, 0.9, 0.8, 1.0, 0.65};
constexpr Choice kFirst{0.3, 0.2, 0.9};
/// Of the limit: for the plan that moves nothing.
constexpr double kRerunShare = 0.3;
/// Of what is left: for one choice.
constexpr double kChoiceShare = 0.12;
constexpr int kLayoutTries = 4;

double time_of_copies(const Lanes& lanes, Bytes bytes) {
  return lanes.out.time(bytes) + lanes.in.time(bytes);
}

class Search {
 public:
  Search(const Graph& graph, Bytes budget, const Slower& slower, Ways ways, Control& control)
      : graph_(graph),
        budget_(budget),
        slower_(slower),
        ways_(ways),
        control_(control),
        movable_(movable(graph)) {}

  void offer(Planned planned) {
    const bool is_better = planned.plan && (!best_.plan || planned.plan->cost < best_.plan->cost);
    if (is_better || (!best_.plan && !best_.smallest_plan)) best_ = std::move(planned);
  }

  /// Keeps a choice that gives the best plan so far, and goes on from there.
  void run() {
    Choice best = kFirst;
    try_one(best);
    bool gained = true;
    while (gained && !is_over()) {
      gained = false;
      for (double room : kRooms) gained |= try_instead(best, {best.worth, best.price, room});
      if (ways_ == Ways::both) {
        for (double worth : kWorths) gained |= try_instead(best, {worth, best.price, best.room});
      }
      for (double price : kPrices) gained |= try_instead(best, {best.worth, price, best.room});
    }
  }

  Planned take() { return std::move(best_); }

 private:
  bool is_over() const { return control_.should_stop(); }

  bool try_instead(Choice& best, Choice choice) {
    const bool is_new = std::ranges::none_of(tried_, [&](const Choice& other) {
      return other.worth == choice.worth && other.price == choice.price &&
             other.room == choice.room;
    });
    if (!is_new || is_over() || !try_one(choice)) return false;
    best = choice;
    return true;
  }

  /// Returns whether it gave the best plan so far.
  bool try_one(const Choice& choice) {
    tried_.push_back(choice);
    const LoadGraph loads = with_loads(graph_, prices(choice), /*reruns=*/ways_ == Ways::both);
    Bytes room = budget_of(choice.room);
    Control part = share_of_time(control_, kChoiceShare);
    const Planned found =
        planner::plan_within(loads.graph, strategy::default_strategy(), room, {}, part);
    if (!found.plan) return false;
    for (Bytes peak = budget_, tries = 0; tries < kLayoutTries; ++tries) {
      Plan plan = planner::with_addresses(
          graph_, schedule(graph_, loads, *found.plan, slower_.lanes, peak), budget_);
      const Bytes excess = plan.layout->arena_bytes - budget_;
      if (excess <= 0) return keep_if_better(std::move(plan));
      peak = std::max(plan.peak_bytes, peak) - excess;
      if (peak < found.plan->peak_bytes) return false;
    }
    return false;
  }

  Bytes budget_of(double room) const {
    const Bytes beside = budget_ - graph_.resident_bytes();
    return graph_.resident_bytes() + static_cast<Bytes>(room * static_cast<double>(beside));
  }

  bool keep_if_better(Plan plan) {
    if (best_.plan && plan.cost >= best_.plan->cost) return false;
    if (plan.slower && slower_.bytes && plan.slower->bytes > *slower_.bytes) return false;
    plan.strategy = ways_ == Ways::both ? "search+offload" : "offload";
    plan.budget_bytes = budget_;
    planner::require_valid(graph_, plan);
    Planned planned = planner::nothing_planned(graph_, budget_);
    planned.outcome = Outcome::feasible;
    planned.plan = std::move(plan);
    best_ = std::move(planned);
    control_.report("with slower memory: a plan of cost " + std::to_string(best_.plan->cost));
    return true;
  }

  /// The dearest values first, until slower memory is full.
  std::vector<std::optional<double>> prices(const Choice& choice) const {
    std::vector<TensorId> chosen;
    for (TensorId id = 0; id < graph_.num_tensors(); ++id) {
      if (movable_[id] && (ways_ == Ways::move || worth(id) >= choice.worth)) {
        chosen.push_back(id);
      }
    }
    std::ranges::stable_sort(chosen, std::ranges::greater{},
                             [&](TensorId id) { return worth(id); });
    std::vector<std::optional<double>> prices(graph_.tensors().size());
    Bytes left = slower_.bytes.value_or(std::numeric_limits<Bytes>::max());
    for (TensorId id : chosen) {
      const Bytes bytes = graph_.tensor(id).bytes;
      if (bytes > left) continue;
      left -= bytes;
      prices[id] = choice.price * time_of_copies(slower_.lanes, bytes);
    }
    return prices;
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
  Control& control_;
  std::vector<bool> movable_;
  std::vector<Choice> tried_;
  Planned best_;
};

/// Everything kept: the answer where it fits.
Planned all_kept(const Graph& graph, Bytes budget) {
  std::vector<OpId> order(graph.ops().size());
  std::iota(order.begin(), order.end(), 0);
  return planner::plan_of(graph, order, "keep-all", budget);
}

/// Bounds for plans that only rerun do not hold for those that also move.
Planned without_bound(Planned planned) {
  planned.certificate.reset();
  if (planned.outcome == Outcome::optimal) planned.outcome = Outcome::feasible;
  if (planned.plan) planned.plan->lower_bound.reset();
  return planned;
}

}  // namespace

Planned plan_with(const Graph& graph, Bytes budget, const Slower& slower, Ways ways,
                  Control& control, Bytes reserved_bytes) {
  const Control clock;
  Planned best = all_kept(graph, budget);
  if (!best.plan) {
    Search search(graph, budget, slower, ways, control);
    if (ways != Ways::move) {
      Control part = share_of_time(control, ways == Ways::rerun ? 1 : kRerunShare);
      search.offer(planner::plan_within(graph, strategy::default_strategy(), budget, {}, part,
                                        reserved_bytes));
    }
    if (ways != Ways::rerun) search.run();
    best = ways == Ways::rerun ? search.take() : without_bound(search.take());
  }
  best.seconds = clock.elapsed_seconds();
  if (best.plan) best.plan->seconds = best.seconds;
  return best;
}

}  // namespace lowtide::offload
