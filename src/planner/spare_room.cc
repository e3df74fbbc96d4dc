#include "planner/spare_room.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "layout/warm_start.h"
#include "planner/plan_events.h"
#include "planner/realize.h"
#include "remat/moves.h"

namespace lowtide::planner {
namespace {

/// The work for one layout, for each action; and how many times more when all reruns were tried in
/// vain.
constexpr std::int64_t kPatience = 1000;
constexpr std::int64_t kMorePatience = 8;

class SpareRoom {
 public:
  SpareRoom(const Graph& graph, const PlanEvents& known, PlacedPlan given,
            const packing::PackingGoal& goal, const Control& control)
      : graph_(graph),
        known_(known),
        stages_(known.stages()),
        goal_(goal),
        work_left_(goal.work),
        control_(control),
        best_(std::move(given)),
        warm_(graph, best_.plan),
        events_(stages_, *goal.capacity + graph.resident_bytes()),
        moves_(stages_, events_) {}

  PlacedPlan without() {
    remat::change_to(events_, known_.reruns());
    goal_.work = kPatience * static_cast<std::int64_t>(best_.plan.actions.size());
    while (!is_over()) {
      gave_up_ = false;
      if (remove_some()) continue;
      if (!gave_up_) break;
      goal_.work *= kMorePatience;
    }
    return std::move(best_);
  }

 private:
  bool is_over() const { return work_left_ <= 0 || control_.should_stop(); }

  /// Whether any could go.
  bool remove_some() {
    bool any = false;
    for (remat::Event event : by_promise()) {
      if (is_over()) break;
      if (events_.contains(event)) any |= remove(event);
    }
    return any;
  }

  /// Alone, or else with the reruns that read what it makes.
  bool remove(remat::Event event) {
    moves_.hold(event);
    const std::size_t left = events_.events().size();
    if (keep_if_it_fits()) return true;
    moves_.hold_with_readers(event);
    if (events_.events().size() < left) return keep_if_it_fits();
    moves_.undo();  // nothing reads it that runs again
    return false;
  }

  /// Those first that cost most for the memory, over stages, which they save.
  std::vector<remat::Event> by_promise() const {
    std::vector<remat::Event> events = events_.events();
    std::ranges::sort(events);
    std::ranges::stable_sort(events, std::greater<>(), [&](remat::Event event) {
      return stages_.stage(event.op).cost / std::max(saved(event), 1.0);
    });
    return events;
  }

  /// Bytes times stages over which the rerun saves holding what it makes.
  double saved(remat::Event event) const {
    const std::vector<int>& runs = events_.runs(event.op);
    const auto k = static_cast<int>(std::ranges::lower_bound(runs, event.stage) - runs.begin());
    double sum = 0;
    for (int v : stages_.stage(event.op).outputs) {
      const int stages = event.stage - events_.last_stage(v, k - 1);
      sum += static_cast<double>(stages_.value(v).bytes) * stages;
    }
    return sum;
  }

  bool keep_if_it_fits() {
    const bool fits = events_.fits() && lay_out();
    control_.count(events_.take_work());
    if (fits) {
      moves_.keep();
    } else {
      moves_.undo();
    }
    return fits;
  }

  /// Whether the plan of these events costs less than the best and has addresses; then it is that.
  bool lay_out() {
    std::vector<OpId> executions = known_.executions_with(events_.events());
    Plan plan = lower_in_place(graph_, executions, control_);
    if (plan.cost >= best_.plan.cost) return false;
    layout::Repair attempt = warm_.layout_of(plan, goal_, control_);
    work_left_ -= attempt.work;
    gave_up_ |= !attempt.layout && attempt.work > 0;
    if (!attempt.layout) return false;
    plan.layout = std::move(attempt.layout);
    best_ = {std::move(plan), std::move(executions)};
    warm_ = layout::WarmStart(graph_, best_.plan);
    return true;
  }

  const Graph& graph_;
  const PlanEvents& known_;
  const remat::StageGraph& stages_;
  packing::PackingGoal goal_;  // of one layout
  std::int64_t work_left_;
  const Control& control_;
  PlacedPlan best_;
  layout::WarmStart warm_;
  remat::EventPlan events_;
  remat::Moves moves_;
  bool gave_up_ = false;  // on some layout, since reruns were last tried from the first on
};

}  // namespace

PlacedPlan without_needless_reruns(const Graph& graph, PlacedPlan given,
                                   const packing::PackingGoal& goal, const Control& control) {
  const auto events = PlanEvents::of(graph, given.executions);
  if (!events) return given;
  return SpareRoom(graph, *events, std::move(given), goal, control).without();
}

}  // namespace lowtide::planner
