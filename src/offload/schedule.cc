#include "offload/schedule.h"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "plan/in_place.h"
#include "plan/replay.h"
#include "plan/residents.h"

namespace lowtide::offload {
namespace {

/// An action of the plan without lanes: copies take no time in it.
struct Step {
  Action action;        ///< a run, a free, or a prefetch that brings a value at once
  Bytes memory = 0;     ///< that is in use during the action
  double ready = 0;     ///< when the action begins, if nothing has to wait
  bool leaves = false;  ///< a free of a value that is loaded later
};

/// The actions of a plan with loads in terms of the graph; a load is a prefetch.
class WithoutTokens {
 public:
  WithoutTokens(const Graph& graph, const LoadGraph& loads) : graph_(graph), loads_(loads) {}

  std::vector<Action> actions_of(const Plan& plan) {
    for (const Action& action : plan.actions) {
      if (action.verb == Verb::free) {
        if (action.index < graph_.num_tensors()) actions_.push_back(action);
      } else if (const TensorId loaded = loads_.loaded[action.index]; loaded != kNone) {
        load(loaded);
      } else {
        run(loads_.original[action.index], action);
      }
    }
    return std::move(actions_);
  }

 private:
  /// The first load after its op is of the value that is still there.
  void load(TensorId storage) {
    if (std::erase(made_, storage) == 0) actions_.push_back({Verb::prefetch, storage, {}});
  }

  void run(OpId op, const Action& action) {
    for (TensorId storage : made_) actions_.push_back({Verb::free, storage, {}});
    made_.clear();
    actions_.push_back({Verb::run, op, action.in_place});
    const Op& with_loads = loads_.graph.op(action.index);
    for (std::size_t i = 0; i < with_loads.outputs.size(); ++i) {
      const TensorId out = graph_.op(op).outputs[i];
      if (with_loads.outputs[i] != out) made_.push_back(out);
    }
  }

  const Graph& graph_;
  const LoadGraph& loads_;
  std::vector<TensorId> made_;  ///< by the last op, and not loaded yet
  std::vector<Action> actions_;
};

/// The storage over which the op writes that output in place.
TensorId overwritten(const Graph& graph, const Op& op, int output) {
  const auto pair = std::ranges::find(op.inplace, output, &InPlace::output);
  return graph.storage(op.inputs[pair->input]);
}

/// With the memory and the time of each action.
class Steps {
 public:
  Steps(const Graph& graph, std::span<const TensorId> residents, std::vector<Action> actions)
      : graph_(graph), memory_(graph.resident_bytes()), is_away_(graph.tensors().size()) {
    for (TensorId id : residents) {
      memory_ -= bytes_of(id);
      is_away_[id] = true;
    }
    for (Action& action : actions) add(std::move(action));
    mark_leaving();
  }

  std::vector<Step> take() { return std::move(steps_); }

 private:
  Bytes bytes_of(TensorId storage) const { return graph_.tensor(storage).bytes; }

  void add(Action action) {
    const double ready = now_;
    Bytes workspace = 0;
    switch (action.verb) {
      case Verb::run: workspace = run(action); break;
      case Verb::free: memory_ -= bytes_of(graph_.storage(action.index)); break;
      default: memory_ += bytes_of(action.index); break;
    }
    steps_.push_back({std::move(action), memory_ + workspace, ready});
  }

  Bytes run(const Action& action) {
    const Op& op = graph_.op(action.index);
    for (TensorId out : op.outputs) memory_ += bytes_of(out);
    for (int output : action.in_place) memory_ -= bytes_of(overwritten(graph_, op, output));
    now_ += op.cost;
    return op.workspace_bytes;
  }

  /// Residents always lie in slower memory afterwards.
  void mark_leaving() {
    std::vector<bool> away = is_away_;
    for (auto step = steps_.rbegin(); step != steps_.rend(); ++step) {
      if (step->action.verb == Verb::prefetch) {
        away[step->action.index] = true;
      } else if (step->action.verb == Verb::free) {
        step->leaves = away[graph_.storage(step->action.index)];
      }
    }
  }

  const Graph& graph_;
  Bytes memory_;
  double now_ = 0;
  std::vector<bool> is_away_;  ///< by tensor: a resident that lies in slower memory at first
  std::vector<Step> steps_;
};

/// Nanoseconds of counted work: of a step, and of a step that a load would come before.
constexpr double kPerStep = 100, kPerLook = 3;

/// Follows the steps and the lanes in time.
class Scheduler {
 public:
  Scheduler(const Graph& graph, std::span<const TensorId> residents, std::span<const Step> steps,
            const Routes& routes, Bytes budget, double hurry)
      : graph_(graph),
        hurry_(hurry),
        steps_(steps),
        routes_(routes),
        lanes_(routes.all_lanes()),
        clock_(lanes_),
        budget_(budget),
        state_(graph.tensors().size()),
        is_live_view_(graph.tensors().size()),
        has_run_(graph.ops().size()) {
    for (TensorId id : residents) state_[id].copied = true;
    for (std::size_t i = 0; i < steps_.size(); ++i) {
      const Action& action = steps_[i].action;
      if (action.verb != Verb::prefetch) continue;
      loads_of(action.index).steps.push_back(i);
      state_[action.index].moves = true;
    }
  }

  std::vector<Action> run() {
    for (next_ = 0; next_ < steps_.size(); ++next_) {
      free_what_has_left();
      if (steps_[next_].action.verb != Verb::free) {  // else: once there is its room
        for (Loads& loads : loads_) start_loads(loads);
      }
      act(steps_[next_]);
    }
    for (TensorId id : std::exchange(leaving_, {})) finish_leaving(id);
    return std::move(actions_);
  }

  /// When the last action ended.
  double now() const { return clock_.now(); }
  /// Nanoseconds that run() takes.
  double work() const {
    return kPerStep * static_cast<double>(steps_.size()) + kPerLook * static_cast<double>(looks_);
  }

 private:
  /// Of a storage that moves.
  struct State {
    bool moves = false;
    bool copied = false;     ///< its copy out was started
    bool under_way = false;  ///< a copy that nothing has waited for
    bool arriving = false;   ///< that copy is one in
    bool early = false;      ///< its next load was started before its step
    double end = 0;          ///< of its last copy
  };
  /// The steps that load from one place, in order.
  struct Loads {
    std::vector<std::size_t> steps;
    std::size_t next = 0;
  };

  Loads& loads_of(TensorId storage) {
    return loads_[static_cast<std::size_t>(routes_.place_of(storage))];
  }

  void push(Verb verb, std::int32_t index) { actions_.push_back({verb, index, {}}); }

  void act(const Step& step) {
    switch (step.action.verb) {
      case Verb::run: run(step); break;
      case Verb::free: free(step); break;
      default: load(step); break;
    }
  }

  void run(const Step& step) {
    const Op& op = graph_.op(step.action.index);
    if (has_live_views(op)) return;  // of a value that never left
    for (TensorId out : op.outputs) end_if_leaving(out);
    make_room(step.memory);
    for (TensorId in : op.inputs) await_arrival(graph_.storage(in));
    Action action = step.action;
    std::erase_if(action.in_place, [&](int output) {
      return stays_beside(overwritten(graph_, op, output), step.memory);
    });
    for (int output : action.in_place) {
      const TensorId storage = overwritten(graph_, op, output);
      await(storage);
      end_views(storage);
    }
    actions_.push_back(std::move(action));
    clock_.run(op.cost);
    for (TensorId out : op.outputs) {
      is_live_view_[out] = graph_.storage(out) != out;
      if (state_[out].moves && !state_[out].copied) start_out(out);
    }
    if (!has_run_[step.action.index]) copy_written_residents(op);
    has_run_[step.action.index] = true;
  }

  void copy_written_residents(const Op& op) {
    for (int position : op.mutates) {
      const TensorId written = graph_.storage(op.inputs[position]);
      if (state_[written].moves) start_out(written);
    }
  }

  void start_out(TensorId storage) {
    State& state = state_[storage];
    push(Verb::offload, storage);
    state.copied = state.under_way = true;
    state.end = clock_.start_out(graph_.tensor(storage).bytes, routes_.place_of(storage));
  }

  /// A value that goes on moving stays until its copy has ended, if there is room.
  void free(const Step& step) {
    const TensorId storage = graph_.storage(step.action.index);
    if (step.leaves && is_leaving(storage)) {
      leave(storage);
    } else {
      end(storage);
    }
  }

  /// Whether its copy out is not over yet.
  bool is_leaving(TensorId storage) const {
    const State& state = state_[storage];
    return state.under_way && !state.arriving && state.end > clock_.now();
  }

  void leave(TensorId storage) {
    leaving_.push_back(storage);
    extra_ += graph_.tensor(storage).bytes;
  }

  /// A value that the op of a step would overwrite while it leaves: the op writes beside it if
  /// there is room.
  bool stays_beside(TensorId storage, Bytes memory) {
    const bool has_room = memory + extra_ + graph_.tensor(storage).bytes <= budget_;
    if (!is_leaving(storage) || !has_room) return false;
    leave(storage);
    return true;
  }

  void end(TensorId storage) {
    await(storage);
    push(Verb::free, storage);
    end_views(storage);
  }

  void end_views(TensorId storage) {
    for (TensorId view : graph_.views(storage)) is_live_view_[view] = false;
  }

  bool has_live_views(const Op& op) const {
    return std::ranges::any_of(op.outputs, [&](TensorId out) { return is_live_view_[out]; });
  }

  /// Before its op makes it again.
  void end_if_leaving(TensorId storage) {
    if (std::erase(leaving_, storage) > 0) finish_leaving(storage);
  }

  void finish_leaving(TensorId storage) {
    end(storage);
    extra_ -= graph_.tensor(storage).bytes;
  }

  void free_what_has_left() {
    while (!leaving_.empty() && state_[*first_to_leave()].end <= clock_.now()) free_first();
  }

  void make_room(Bytes memory) {
    while (!leaving_.empty() && memory + extra_ > budget_) free_first();
  }

  std::vector<TensorId>::const_iterator first_to_leave() const {
    return std::ranges::min_element(leaving_, {}, [&](TensorId id) { return state_[id].end; });
  }

  void free_first() {
    const auto first = first_to_leave();
    const TensorId storage = *first;
    leaving_.erase(first);
    finish_leaving(storage);
  }

  /// Starts the loads that would be late otherwise, in the order of their steps.
  void start_loads(Loads& loads) {
    while (loads.next < loads.steps.size()) {
      const std::size_t at_step = loads.steps[loads.next];
      if (at_step <= next_) return;
      const TensorId storage = steps_[at_step].action.index;
      if (!is_due(at_step, storage) || !is_free(at_step, storage)) return;
      ++loads.next;
      extra_ += graph_.tensor(storage).bytes;
      state_[storage].early = true;
      start_in(storage);
    }
  }

  bool is_due(std::size_t at_step, TensorId storage) const {
    const double left = steps_[at_step].ready - steps_[next_ + 1].ready;  // at the next chance
    const PlaceIndex place = routes_.place_of(storage);
    const double backlog = std::max(0.0, clock_.in_free(place) - clock_.now());
    return left <= hurry_ * (backlog + lanes_.of(place).in.time(graph_.tensor(storage).bytes));
  }

  /// Whether it is away by now, and there is room for it from now to its step.
  bool is_free(std::size_t at_step, TensorId storage) {
    if (std::ranges::count(leaving_, storage) > 0) return false;
    const Bytes bytes = graph_.tensor(storage).bytes;
    Bytes extra = extra_ + bytes;
    for (std::size_t i = next_; i < at_step; ++i) {
      ++looks_;
      if (ends_in(steps_[i].action, storage)) return false;  // it is still there
      if (steps_[i].memory + extra > budget_) return false;
    }
    return true;
  }

  bool ends_in(const Action& action, TensorId storage) const {
    if (action.verb != Verb::run) return graph_.storage(action.index) == storage;
    const Op& op = graph_.op(action.index);
    return std::ranges::any_of(
        action.in_place, [&](int output) { return overwritten(graph_, op, output) == storage; });
  }

  void start_in(TensorId storage) {
    State& state = state_[storage];
    push(Verb::prefetch, storage);
    state.under_way = state.arriving = true;
    state.end = clock_.start_in(graph_.tensor(storage).bytes, routes_.place_of(storage));
  }

  void load(const Step& step) {
    const TensorId storage = step.action.index;
    State& state = state_[storage];
    if (state.early) {  // counted in the memory of the steps from here on
      state.early = false;
      extra_ -= graph_.tensor(storage).bytes;
      return;
    }
    ++loads_of(storage).next;
    if (const auto still = std::ranges::find(leaving_, storage); still != leaving_.end()) {
      leaving_.erase(still);  // it never left
      extra_ -= graph_.tensor(storage).bytes;
      return;
    }
    make_room(step.memory);
    start_in(storage);
  }

  void await_arrival(TensorId storage) {
    if (state_[storage].arriving) await(storage);
  }

  void await(TensorId storage) {
    State& state = state_[storage];
    if (!std::exchange(state.under_way, false)) return;
    push(Verb::wait, storage);
    clock_.wait_until(state.end);
    state.arriving = false;
  }

  const Graph& graph_;
  const double hurry_;
  std::span<const Step> steps_;
  const Routes& routes_;
  const PlaceLanes lanes_;
  LaneClock clock_;
  const Bytes budget_;
  std::vector<State> state_;
  std::vector<bool> is_live_view_;
  std::vector<bool> has_run_;   ///< by op
  std::array<Loads, 2> loads_;  ///< by place
  std::size_t next_ = 0;
  std::vector<TensorId> leaving_;  ///< freed in the steps, and there until their copies have ended
  Bytes extra_ = 0;                ///< in use beside the memory of the steps
  std::int64_t looks_ = 0;         ///< at steps that a load would come before
  std::vector<Action> actions_;
};

/// Without the copies out of values that never come back: there was room for them after all.
std::vector<Action> without_idle_copies(const Graph& graph, std::vector<Action> actions) {
  std::vector<bool> comes_back(graph.tensors().size());
  for (const Action& action : actions) {
    if (action.verb == Verb::prefetch) comes_back[action.index] = true;
  }
  std::erase_if(actions, [&](const Action& action) {
    return moves_values(action.verb) && !comes_back[action.index];
  });
  return actions;
}

}  // namespace

Plan schedule(const Graph& graph, const LoadGraph& loads, const Plan& plan, const Routes& routes,
              Bytes budget, std::span<const double> hurries, const Control& control) {
  const std::vector<TensorId> residents = loaded_residents(graph, loads);
  const std::vector<Step> steps =
      Steps(graph, residents, marked_in_place(graph, WithoutTokens(graph, loads).actions_of(plan)))
          .take();
  std::vector<Action> best;
  double best_end = std::numeric_limits<double>::infinity();
  for (double hurry : hurries) {
    Scheduler scheduler(graph, residents, steps, routes, budget, hurry);
    std::vector<Action> actions = scheduler.run();
    control.count(scheduler.work());
    if (scheduler.now() >= best_end) continue;
    best_end = scheduler.now();
    best = std::move(actions);
  }
  Plan scheduled;
  scheduled.graph = graph.name();
  scheduled.strategy = plan.strategy;
  scheduled.actions = without_idle_copies(graph, std::move(best));
  if (!residents.empty()) scheduled.slower.emplace().residents = residents;
  return with_copies(graph, std::move(scheduled), routes);
}

}  // namespace lowtide::offload
