#include "support/cheapest_sequence.h"

#include <queue>
#include <stdexcept>
#include <utility>

#include "support/brute_force.h"

namespace lowtide::testing {

CheapestSequence::CheapestSequence(const Graph& graph) : CheapestSequence(graph, {}) {}

CheapestSequence::CheapestSequence(const Graph& graph, std::span<const double> load_costs)
    : resident_bytes_(graph.resident_bytes()), num_ops_(graph.num_ops()) {
  std::vector<int> value_of(graph.tensors().size(), kNone);
  for (TensorId id = 0; id < graph.num_tensors(); ++id) {
    if (graph.tensor(id).alias_of != kNone) throw std::logic_error("a graph with views");
    if (graph.is_resident(id)) continue;
    value_of[id] = static_cast<int>(value_bytes_.size());
    value_bytes_.push_back(graph.tensor(id).bytes);
  }
  if (value_bytes_.size() > 12 || num_ops_ > 8) throw std::logic_error("a graph that is too large");
  for (OpId id = 0; id < num_ops_; ++id) add_executions(graph, id, value_of);
  if (!load_costs.empty()) add_loads(graph, load_costs, value_of);
  for (TensorId id : graph.outputs()) {
    if (value_of[id] != kNone) wanted_ |= 1U << value_of[id];
  }
}

void CheapestSequence::add_loads(const Graph& graph, std::span<const double> costs,
                                 const std::vector<int>& value_of) {
  for (TensorId id = 0; id < graph.num_tensors(); ++id) {
    if (value_of[id] == kNone) continue;
    executions_.push_back({graph.producer(id), 0, 1U << value_of[id], 0, graph.tensor(id).bytes,
                           costs[static_cast<std::size_t>(id)], false, true});
  }
}

void CheapestSequence::add_executions(const Graph& graph, OpId id,
                                      const std::vector<int>& value_of) {
  const Op& op = graph.op(id);
  if (!op.mutates.empty()) throw std::logic_error("a graph that writes residents");
  if (!op.recomputable) effects_ |= 1U << id;
  Execution plain{id, 0, 0, 0, op.workspace_bytes, op.cost, !op.recomputable, false};
  for (TensorId in : op.inputs) {
    if (value_of[in] != kNone) plain.inputs |= 1U << value_of[in];
  }
  for (TensorId out : op.outputs) {
    plain.outputs |= 1U << value_of[out];
    plain.bytes += graph.tensor(out).bytes;
  }
  for (Set choice = 0; choice < 1U << op.inplace.size(); ++choice) {
    Execution execution = plain;
    bool allowed = true;
    for (std::size_t k = 0; k < op.inplace.size(); ++k) {
      if ((choice >> k & 1U) == 0) continue;
      const TensorId source = op.inputs[op.inplace[k].input];
      const TensorId target = op.outputs[op.inplace[k].output];
      const Set bit = value_of[source] == kNone ? 0 : 1U << value_of[source];
      allowed = allowed && bit != 0 && (execution.overwritten & bit) == 0 &&
                graph.tensor(target).bytes <= graph.tensor(source).bytes;
      execution.overwritten |= bit;
      execution.bytes -= graph.tensor(source).bytes;
    }
    if (allowed) executions_.push_back(execution);
  }
}

std::size_t CheapestSequence::index(const State& state) const {
  const std::size_t sets = (std::size_t{state.ran} << value_bytes_.size()) | state.live;
  return sets * (num_ops_ + 1) + (state.last + 1);
}

/// Dijkstra's algorithm.
struct CheapestSequence::Search {
  struct Open {
    double cost;
    State state;
    bool operator<(const Open& other) const { return cost > other.cost; }
  };

  const CheapestSequence& space;
  Bytes budget;
  Sequences which;
  std::vector<double> least;
  std::priority_queue<Open> open = {};

  double run() {
    least.assign(space.index({0, 1U << space.num_ops_, -1}), kNever);
    if (space.resident_bytes_ <= budget) reach(0, {});
    while (!open.empty()) {
      const auto [cost, state] = open.top();
      open.pop();
      if (cost > least[space.index(state)]) continue;
      if (is_end(state)) return cost;
      visit(cost, state);
    }
    return kNever;
  }

  bool is_end(const State& state) const {
    return (state.live & space.wanted_) == space.wanted_ &&
           (state.ran & space.effects_) == space.effects_;
  }

  void reach(double cost, const State& state) {
    double& known = least[space.index(state)];
    if (cost >= known) return;
    known = cost;
    open.push({cost, state});
  }

  void visit(double cost, const State& state) {
    for (std::size_t v = 0; v < space.value_bytes_.size(); ++v) {
      if (state.live >> v & 1U) reach(cost, {state.live & ~(1U << v), state.ran, state.last});
    }
    for (const Execution& execution : space.executions_) {
      if (may_run(state, execution)) reach(cost + execution.cost, after(state, execution));
    }
  }

  bool may_run(const State& state, const Execution& execution) const {
    if ((state.live & execution.inputs) != execution.inputs) return false;
    if ((state.live & execution.outputs) != 0) return false;
    if (bytes(state.live) + execution.bytes > budget) return false;
    const bool again = (state.ran >> execution.op & 1U) != 0;
    if (execution.loads) return again;
    if (again) return !execution.once && execution.op > state.last;
    return which == Sequences::any_order || state.ran >> execution.op == 0;
  }

  State after(const State& state, const Execution& execution) const {
    const Set live = (state.live & ~execution.overwritten) | execution.outputs;
    const Set ran = state.ran | 1U << execution.op;
    if (execution.loads) return {live, ran, state.last};
    const bool counts = which == Sequences::staged && ran == state.ran;
    return {live, ran, counts ? execution.op : -1};
  }

  Bytes bytes(Set live) const {
    Bytes sum = space.resident_bytes_;
    for (std::size_t v = 0; v < space.value_bytes_.size(); ++v) {
      if (live >> v & 1U) sum += space.value_bytes_[v];
    }
    return sum;
  }
};

double CheapestSequence::cost(Bytes budget, Sequences which) const {
  return Search{*this, budget, which, {}}.run();
}

}  // namespace lowtide::testing
