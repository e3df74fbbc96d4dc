#include "repeated_graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace lowtide::bench {
namespace {

class Repetition {
 public:
  explicit Repetition(const Graph& graph) : graph_(graph) {
    const auto first = std::ranges::find(graph.ops(), Phase::backward, &Op::phase);
    backward_ = static_cast<OpId>(first - graph.ops().begin());
  }

  Graph make(int copies) {
    data_.name = fmt::format("{}-times-{}", graph_.name(), copies);
    data_.cost_unit = graph_.cost_unit();
    for (int copy = 0; copy < copies; ++copy) add_tensors(copy);
    for (int copy = 0; copy < copies; ++copy) add_ops(copy, 0, backward_);
    last_ = kNone;
    for (int copy = copies - 1; copy >= 0; --copy) add_ops(copy, backward_, graph_.num_ops());
    return Graph(std::move(data_));
  }

 private:
  TensorId copied(int copy, TensorId id) const {
    return id == kNone ? kNone : copy * graph_.num_tensors() + id;
  }

  void add_tensors(int copy) {
    for (Tensor tensor : graph_.tensors()) {
      tensor.name = fmt::format("{}.{}", tensor.name, copy);
      tensor.alias_of = copied(copy, tensor.alias_of);
      tensor.gradient_of = copied(copy, tensor.gradient_of);
      data_.tensors.push_back(std::move(tensor));
    }
    for (TensorId id : graph_.outputs()) data_.outputs.push_back(copied(copy, id));
  }

  void add_ops(int copy, OpId begin, OpId end) {
    TensorId link = last_;
    for (OpId id = begin; id < end; ++id) {
      Op op = graph_.op(id);
      op.name = fmt::format("{}.{}", op.name, copy);
      for (TensorId& in : op.inputs) in = copied(copy, in);
      for (TensorId& out : op.outputs) out = copied(copy, out);
      if (link != kNone && !graph_.is_view_op(id)) op.inputs.push_back(std::exchange(link, kNone));
      if (!graph_.is_view_op(id)) last_ = op.outputs.empty() ? last_ : op.outputs.front();
      op.args.clear();
      op.allocations.clear();
      data_.ops.push_back(std::move(op));
    }
  }

  const Graph& graph_;
  OpId backward_;
  TensorId last_ = kNone;  // of the previous copy
  GraphData data_;
};

}  // namespace

Graph repeated(const Graph& graph, int copies) { return Repetition(graph).make(copies); }

}  // namespace lowtide::bench
