#pragma once

#include <algorithm>
#include <vector>

#include "remat/event_plan.h"

namespace lowtide::remat {

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

  /// Runs the op of the event again, and what makes its inputs where that costs less than what
  /// `held(event, input)` says that it is worth not to hold one, and so on. Whether that costs no
  /// more than `worth`, with what is held for it; else nothing changes.
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

  /// Takes the event out, so that what it made is held since the run before; and then runs that
  /// nothing reads any more.
  void hold(Event event);
  /// Takes the event out with all reruns that read what it makes: often only the last of them is
  /// what the event costs so much for.
  void hold_with_readers(Event event);
  /// hold(), taken back at once unless the plan fits after it.
  void hold_if_it_fits(Event event);
  /// Takes the event out when nothing reads what it makes, and then those that made its inputs.
  void prune(Event event);
  /// Every event that nothing reads; cannot be undone.
  void prune_all();
  /// And then every event that the plan fits without, the dearest first; cannot be undone.
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
