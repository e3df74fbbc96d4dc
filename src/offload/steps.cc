#include "offload/steps.h"

#include <algorithm>
#include <utility>

#include "plan/in_place.h"

namespace lowtide::offload {
namespace {

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

}  // namespace

std::vector<Step> steps_of(const Graph& graph, const LoadGraph& loads, const Plan& plan,
                           std::span<const TensorId> residents) {
  std::vector<Action> actions = WithoutTokens(graph, loads).actions_of(plan);
  return Steps(graph, residents, marked_in_place(graph, std::move(actions))).take();
}

TensorId overwritten(const Graph& graph, const Op& op, int output) {
  const auto pair = std::ranges::find(op.inplace, output, &InPlace::output);
  return graph.storage(op.inputs[pair->input]);
}

}  // namespace lowtide::offload
