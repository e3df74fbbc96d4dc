#pragma once

#include <fmt/format.h>

#include <random>
#include <utility>
#include <vector>

#include "graph/graph.h"

namespace lowtide::bench {

/// A training step of `ops` ops: a third forward ops, a third views, which cost nothing, a third
/// backward ops, with workspaces, a skip every few layers, and sizes from a fixed seed.
class StepGraph {
 public:
  explicit StepGraph(int ops) {
    data_.name = fmt::format("step-{}", ops);
    add(Kind::resident, kNone);
    const int layers = ops / 3;
    for (int i = 0; i < layers; ++i) add_forward();
    for (int i = layers - 1; i >= 0; --i) add_backward(i);
    data_.outputs = {static_cast<TensorId>(data_.tensors.size()) - 1};
  }

  Graph make() { return Graph(std::move(data_)); }

 private:
  TensorId add(Kind kind, TensorId alias_of) {
    Tensor tensor;
    tensor.name = fmt::format("t{}", data_.tensors.size());
    tensor.kind = kind;
    tensor.alias_of = alias_of;
    tensor.bytes = alias_of == kNone ? 64 * (1 + static_cast<Bytes>(random_() % 4096)) : 0;
    data_.tensors.push_back(std::move(tensor));
    return static_cast<TensorId>(data_.tensors.size()) - 1;
  }

  void add_op(std::vector<TensorId> inputs, TensorId output, Phase phase) {
    Op op;
    op.name = fmt::format("op{}", data_.ops.size());
    op.type = "bench::op";
    op.inputs = std::move(inputs);
    op.outputs = {output};
    op.phase = phase;
    const bool is_view = data_.tensors[output].alias_of != kNone;
    if (!is_view) op.cost = static_cast<double>(1 + random_() % 100);
    if (!is_view && random_() % 4 == 0) {
      op.workspace_bytes = 64 * static_cast<Bytes>(random_() % 4096);
    }
    data_.ops.push_back(std::move(op));
  }

  void add_forward() {
    const auto before = static_cast<TensorId>(data_.tensors.size()) - 1;
    std::vector<TensorId> inputs{before};
    if (activations_.size() > 4 && random_() % 4 == 0) {
      inputs.push_back(activations_[activations_.size() - 4]);
    }
    const TensorId made = add(Kind::value, kNone);
    add_op(std::move(inputs), made, Phase::forward);
    activations_.push_back(made);
    add_op({made}, add(Kind::value, made), Phase::forward);
  }

  void add_backward(int layer) {
    const auto gradient = static_cast<TensorId>(data_.tensors.size()) - 1;
    add_op({activations_[layer], gradient}, add(Kind::value, kNone), Phase::backward);
  }

  GraphData data_;
  std::vector<TensorId> activations_;
  std::mt19937_64 random_{1};
};

}  // namespace lowtide::bench
