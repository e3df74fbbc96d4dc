#pragma once

#include <vector>

#include "strategy/search/event_plan.h"

namespace lowtide {

/// Values that are worth a move of their own: some op reads them, theirs may run again, and they
/// are not tiny beside the largest.
std::vector<int> movable_values(const StageGraph& graph);

/// The next stage that reads what is held of the value over that stage, which neither makes nor
/// reads it; kNone when nothing is.
int next_use_behind(const StageGraph& graph, const EventPlan& plan, int value, int stage);

/// Changes of a plan that a local search tries, and takes back when they do not pay.
class Moves {
 public:
  explicit Moves(const StageGraph& graph, EventPlan& plan) : graph_(graph), plan_(plan) {}

  /// Runs the op of the event again. An input that would have to be held for this alone is made
  /// again too, and so on, when `again(event, input)` says so. Runs that nothing reads any more go.
  /// Stops half way when the plan gets dearer than `most_cost`.
  template <class Again>
  void drop(Event event, double most_cost, const Again& again) {
    if (plan_.contains(event) || !graph_.may_rerun(event.op, event.stage)) return;
    add(event);
    for (int v : graph_.stage(event.op).inputs) {
      if (plan_.cost() > most_cost) return;
      if (plan_.stretches(event, v) && again(event, v)) {
        drop({event.stage, graph_.value(v).producer}, most_cost, again);
      }
    }
    prune_run_before(event);
  }

  /// Takes the event out, so that what it made is held since the run before; and then runs that
  /// nothing reads any more.
  void hold(Event event);
  /// The same, taken back at once unless the plan fits after it.
  void hold_if_it_fits(Event event);
  /// Takes the event out when nothing reads what it makes, and then those that made its inputs.
  void prune(Event event);
  /// Every event that nothing reads; cannot be undone.
  void prune_all();

  /// Whether anything changed since the last keep() or undo().
  bool any() const { return !changes_.empty(); }
  void keep() { changes_.clear(); }
  void undo();

 private:
  struct Change {
    Event event;
    bool added;
  };

  void add(Event event);
  void remove(Event event);
  void prune_inputs(Event event);
  void prune_run_before(Event event);

  const StageGraph& graph_;
  EventPlan& plan_;
  std::vector<Change> changes_;
};

}  // namespace lowtide
