#include "offload/residents.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "graph/boundary.h"
#include "graph/permuted.h"

namespace lowtide::offload {
namespace {

/// By storage: the ops that read or write its bytes, in order.
std::vector<std::vector<OpId>> uses_of_storages(const Graph& graph) {
  std::vector<std::vector<OpId>> uses(graph.tensors().size());
  for (OpId id = 0; id < graph.num_ops(); ++id) {
    if (graph.is_view_op(id)) continue;
    for (TensorId in : graph.op(id).inputs) {
      std::vector<OpId>& of = uses[graph.storage(in)];
      if (of.empty() || of.back() != id) of.push_back(id);
    }
  }
  return uses;
}

std::vector<bool> written_storages(const Graph& graph) {
  std::vector<bool> written(graph.tensors().size());
  for (const Op& op : graph.ops()) {
    for (int position : op.mutates) written[graph.storage(op.inputs[position])] = true;
  }
  return written;
}

/// Whether the program, or the caller of a graph with a boundary, writes the tensor between steps.
bool is_written_between_steps(const Tensor& tensor, bool is_callers) {
  if (is_callers) return tensor.role != Role::parameter;
  return tensor.role == Role::input || tensor.role == Role::target;
}

/// How long no op uses a resident in a step, and the copies that this takes.
struct Rest {
  double time = 0;
  int copies_in = 0;
};

/// Between uses that are further apart than a copy takes. `ends`: by op, when it ends.
Rest rest_of(std::span<const OpId> uses, std::span<const double> ends, const Graph& graph,
             double copy) {
  const auto begin = [&](OpId id) { return ends[id] - graph.op(id).cost; };
  Rest rest{begin(uses.front()) + ends.back() - ends[uses.back()], 1};  // from one step to the next
  for (std::size_t i = 1; i < uses.size(); ++i) {
    const double gap = begin(uses[i]) - ends[uses[i - 1]];
    if (gap <= copy) continue;
    rest.time += gap;
    ++rest.copies_in;
  }
  return rest;
}

/// The op after which each op comes: itself, or for one that only writes residents the last that it
/// must follow; kNone for none.
class Anchors {
 public:
  explicit Anchors(const Graph& graph)
      : graph_(graph),
        used_(graph.tensors().size(), kNone),
        written_(graph.tensors().size(), kNone) {
    for (OpId id = 0; id < graph.num_ops(); ++id) add(id);
  }

  const std::vector<OpId>& each() const { return anchors_; }

 private:
  void add(OpId id) {
    const Op& op = graph_.op(id);
    const bool only_writes = op.outputs.empty() && !op.mutates.empty();
    const OpId anchor = only_writes ? last_before(op) : id;
    anchors_.push_back(anchor);
    for (TensorId in : op.inputs) raise(used_[graph_.storage(in)], anchor);
    for (int position : op.mutates) raise(written_[graph_.storage(op.inputs[position])], anchor);
  }

  static void raise(OpId& last, OpId anchor) { last = std::max(last, anchor); }

  OpId last_before(const Op& op) const {
    OpId last = kNone;
    for (TensorId in : op.inputs) {
      if (graph_.producer(in) != kNone) raise(last, anchors_[graph_.producer(in)]);
      raise(last, written_[graph_.storage(in)]);
    }
    for (int position : op.mutates) raise(last, used_[graph_.storage(op.inputs[position])]);
    return last;
  }

  const Graph& graph_;
  std::vector<OpId> anchors_;  // by op
  std::vector<OpId> used_;     // by storage: of the last op that uses it
  std::vector<OpId> written_;  // by storage: of the last op that writes it
};

}  // namespace

std::vector<bool> movable_residents(const Graph& graph) {
  std::vector<bool> result(graph.tensors().size());
  const OpId boundary = find_boundary(graph);
  const bool are_callers = boundary != kNone;
  const std::vector<std::vector<OpId>> uses = uses_of_storages(graph);
  for (TensorId id = 0; id < graph.num_tensors(); ++id) {
    const Tensor& tensor = graph.tensor(id);
    result[id] = tensor.kind == Kind::resident && tensor.bytes > 0 && !uses[id].empty() &&
                 !is_written_between_steps(tensor, are_callers);
  }
  for (TensorId id : graph.outputs()) result[graph.storage(id)] = false;
  if (are_callers) {
    for (TensorId id : graph.op(boundary).inputs) result[graph.storage(id)] = false;
  }
  for (OpId id = 0; id < graph.num_ops(); ++id) {
    const Op& op = graph.op(id);
    for (int position : op.mutates) {
      const TensorId written = graph.storage(op.inputs[position]);
      if (are_callers || uses[written].back() != id) result[written] = false;
    }
  }
  return result;
}

std::vector<TensorId> residents_by_worth(const Graph& graph, const Lanes& lanes) {
  const std::vector<OpId> order = order_of_early_writes(graph);
  const Graph early = permuted(graph, order);
  std::vector<double> ends;
  double now = 0;
  for (const Op& op : early.ops()) ends.push_back(now += op.cost);
  const std::vector<std::vector<OpId>> uses = uses_of_storages(early);
  const std::vector<bool> written = written_storages(graph), movable = movable_residents(graph);
  std::vector<double> worth(graph.tensors().size());
  std::vector<TensorId> chosen;
  for (TensorId id = 0; id < graph.num_tensors(); ++id) {
    if (!movable[id]) continue;
    const Bytes bytes = graph.tensor(id).bytes;
    const Rest rest = rest_of(uses[id], ends, early, lanes.in.time(bytes));
    const double copies =
        rest.copies_in * lanes.in.time(bytes) + (written[id] ? lanes.out.time(bytes) : 0);
    worth[id] = copies > 0 ? static_cast<double>(bytes) * rest.time / copies
                           : std::numeric_limits<double>::infinity();
    chosen.push_back(id);
  }
  const auto is_better = [&](TensorId a, TensorId b) {
    return std::pair(worth[a], graph.tensor(a).bytes) > std::pair(worth[b], graph.tensor(b).bytes);
  };
  std::ranges::stable_sort(chosen, is_better);
  return chosen;
}

std::vector<OpId> order_of_early_writes(const Graph& graph) {
  const Anchors anchors(graph);
  std::vector<OpId> order(graph.ops().size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, {}, [&](OpId id) { return anchors.each()[id]; });
  return order;
}

}  // namespace lowtide::offload
