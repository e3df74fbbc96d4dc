#include "parallel/units/step_part.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

namespace lowtide::parallel {
namespace {

class PartCutter {
 public:
  PartCutter(const Graph& step, std::span<const OpId> ops)
      : step_(step), ops_(ops), inside_(static_cast<std::size_t>(step.num_ops())) {
    for (OpId id : ops) inside_[static_cast<std::size_t>(id)] = true;
    data_.name = step.name();
    data_.cost_unit = step.cost_unit();
    Tensor outbox;
    outbox.name = "outbox";
    outbox.kind = Kind::resident;
    data_.tensors.push_back(std::move(outbox));
  }

  Graph cut() {
    for (const Phase phase : {Phase::forward, Phase::backward}) {
      receive_for(phase);
      for (OpId id : ops_) {
        if (step_.op(id).phase == phase) add(id);
      }
    }
    return Graph(std::move(data_));
  }

 private:
  /// Storages that ops of the phase read and other ops make.
  void receive_for(Phase phase) {
    std::set<TensorId> wanted;
    for (OpId id : ops_) {
      if (step_.op(id).phase != phase) continue;
      for (TensorId input : step_.op(id).inputs) {
        const TensorId storage = step_.storage(input);
        if (step_.is_resident(storage) || known_.contains(storage)) continue;
        if (!inside_[static_cast<std::size_t>(step_.producer(storage))]) wanted.insert(storage);
      }
    }
    for (TensorId storage : wanted) {
      Op op;
      op.name = "receive." + step_.tensor(storage).name;
      op.type = "lowtide::receive";
      op.phase = phase;
      op.recomputable = false;
      op.outputs = {copied(storage)};
      data_.ops.push_back(std::move(op));
    }
  }

  void add(OpId id) {
    Op op = step_.op(id);
    for (TensorId& input : op.inputs) input = read(input, op.phase);
    for (TensorId& output : op.outputs) output = copied(output);
    op.args.clear();
    op.allocations.clear();
    const Phase phase = op.phase;
    data_.ops.push_back(std::move(op));
    for (TensorId output : step_.op(id).outputs) {
      const bool owns = step_.tensor(output).alias_of == kNone;
      if (owns && is_read_outside(step_, output, inside_)) send(output, phase);
    }
  }

  void send(TensorId value, Phase phase) {
    Op op;
    op.name = "send." + step_.tensor(value).name;
    op.type = "lowtide::send";
    op.phase = phase;
    op.recomputable = false;
    op.inputs = {known_.at(value), 0};
    op.mutates = {1};
    data_.ops.push_back(std::move(op));
  }

  /// The part's tensor of one of the step, after the view ops that make it.
  TensorId read(TensorId id, Phase phase) {
    const auto known = known_.find(id);
    if (known != known_.end()) return known->second;
    const OpId producer = step_.producer(id);
    if (producer != kNone && step_.is_view_op(producer)) {
      Op view = step_.op(producer);
      for (TensorId& input : view.inputs) input = read(input, phase);
      for (TensorId& output : view.outputs) output = copied(output);
      view.args.clear();
      view.phase = phase;
      data_.ops.push_back(std::move(view));
      return known_.at(id);
    }
    return copied(id);
  }

  TensorId copied(TensorId id) {
    const Tensor& original = step_.tensor(id);
    Tensor tensor;
    tensor.name = original.name;
    tensor.bytes = original.bytes;
    tensor.kind = original.kind;
    tensor.dtype = original.dtype;
    tensor.shape = original.shape;
    tensor.strides = original.strides;
    if (original.alias_of != kNone) {
      const auto base = known_.find(original.alias_of);
      tensor.alias_of = base != known_.end() ? base->second : copied(original.alias_of);
    }
    data_.tensors.push_back(std::move(tensor));
    const auto copy = static_cast<TensorId>(data_.tensors.size() - 1);
    known_[id] = copy;
    return copy;
  }

  const Graph& step_;
  std::span<const OpId> ops_;
  std::vector<bool> inside_;            // by op of the step
  std::map<TensorId, TensorId> known_;  // of the step, to the part's
  GraphData data_;
};

}  // namespace

bool is_read_outside(const Graph& graph, TensorId storage, const std::vector<bool>& inside) {
  std::vector<TensorId> names{storage};
  for (TensorId view : graph.views(storage)) names.push_back(view);
  return std::ranges::any_of(names, [&](TensorId name) {
    if (std::ranges::find(graph.outputs(), name) != graph.outputs().end()) return true;
    return std::ranges::any_of(graph.readers(name), [&](OpId reader) {
      return !graph.is_view_op(reader) && !inside[static_cast<std::size_t>(reader)];
    });
  });
}

Graph part_of_step(const Graph& step, std::span<const OpId> ops) {
  return PartCutter(step, ops).cut();
}

}  // namespace lowtide::parallel
