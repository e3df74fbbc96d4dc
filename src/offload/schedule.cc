#include "offload/schedule.h"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "offload/steps.h"

namespace lowtide::offload {
namespace {

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
  const std::vector<Step> steps = steps_of(graph, loads, plan, residents);
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
