#pragma once

#include <algorithm>
#include <vector>

#include "remat/event_plan.h"

namespace lowtide::remat {

/// Values worth a move of their own: some op reads them, their producer may run again, and they are
/// not tiny compared to the largest.
std::vector<int> movable_values(const StageGraph& graph);

/// The value is held over `stage`, which neither makes nor reads it. The next stage that reads it;
/// kNone when none does.
int next_use_behind(const StageGraph& graph, const EventPlan& plan, int value, int stage);

/// Changes of a plan that a local search tries, and undoes when they do not pay.
class Moves {
 public:
  explicit Moves(const StageGraph& graph, EventPlan& plan) : graph_(graph), plan_(plan) {}

  /// Runs the op of the event again. Makes an input again too, recursively, if only this run would
  /// need it held and `again(event, input)` is true. Removes runs that nothing reads any more.
  /// Stops half way when the plan costs more than `most_cost`.
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

  /// Runs the op of the event again, and recursively the makers of its inputs, where that costs
  /// less than `held(event, input)`, the price of holding the input. Returns whether the cost, held
  /// inputs included, is at most `worth`; else nothing changes.
  template <class Held>
  bool drop_if_worth(Event event, double worth, const Held& held) {
    if (plan_.contains(event)) return true;
    if (!graph_.may_rerun(event.op, event.stage)) return false;
    const std::size_t before = changes_.size();
    const double most = plan_.cost() + worth;
    double for_held = 0;
    add(event);
    for (int v : graph_.stage(event.op).inputs) {
      if (plan_.cost() + for_held > most) break;
      if (!plan_.stretches(event, v)) continue;
      const double to_hold = held(event, v);
      const double left = most - plan_.cost() - for_held;
      const Event maker{event.stage, graph_.value(v).producer};
      if (!drop_if_worth(maker, std::min(to_hold, left), held)) for_held += to_hold;
    }
    if (plan_.cost() + for_held <= most) {
      prune_run_before(event);
      return true;
    }
    undo_to(before);
    return false;
  }

  /// Removes the event, so that its outputs are held since the run before; then removes runs that
  /// nothing reads any more.
  void hold(Event event);
  /// Removes the event with all reruns that read its outputs: often only the last of them makes the
  /// event so expensive.
  void hold_with_readers(Event event);
  /// hold(), undone at once unless the plan fits after it.
  void hold_if_it_fits(Event event);
  /// Removes the event when nothing reads its outputs, and then makers of its inputs by the same
  /// rule.
  void prune(Event event);
  /// prune() for every event; cannot be undone.
  void prune_all();
  /// Also removes events that the plan fits without, the most expensive first; cannot be undone.
  void trim();

  /// Whether anything changed since the last keep() or undo().
  bool any() const { return !changes_.empty(); }
  void keep() { changes_.clear(); }
  void undo() { undo_to(0); }

 private:
  struct Change {
    Event event;
    bool added;
  };

  void add(Event event);
  void remove(Event event);
  void undo_to(std::size_t count);
  void prune_inputs(Event event);
  void prune_run_before(Event event);

  const StageGraph& graph_;
  EventPlan& plan_;
  std::vector<Change> changes_;
};

}  // namespace lowtide::remat
