#pragma once

#include <fmt/format.h>

#include <utility>
#include <vector>

#include "support/random_graph.h"

namespace lowtide::testing {

/// A training step of layers with a weight and a momentum each, larger than the values together:
/// forward i makes activation i, backward i a gradient of weight i and one of activation i - 1, and
/// the updates come last.
inline Graph trained_chain(int layers, Bytes weight_bytes = 4096, Bytes bytes = 512) {
  GraphData data;
  const auto add = [&](Tensor tensor) {
    data.tensors.push_back(std::move(tensor));
    return static_cast<TensorId>(data.tensors.size()) - 1;
  };
  std::vector<TensorId> weights, momenta, activations{add(resident("x", bytes))};
  data.tensors.front().role = Role::input;
  for (int i = 0; i < layers; ++i) {
    weights.push_back(add(resident(fmt::format("w{}", i), weight_bytes)));
    momenta.push_back(add(resident(fmt::format("m{}", i), weight_bytes)));
  }
  for (int i = 0; i < layers; ++i) {
    activations.push_back(add(value(fmt::format("a{}", i), bytes)));
    data.ops.push_back(
        op(fmt::format("forward {}", i), {activations[i], weights[i]}, {activations[i + 1]}, 10));
  }
  std::vector<TensorId> gradients(layers);
  TensorId gradient = activations.back();
  for (int i = layers - 1; i >= 0; --i) {
    gradients[i] = add(value(fmt::format("g{}", i), weight_bytes));
    const TensorId next = add(value(fmt::format("d{}", i), bytes));
    data.ops.push_back(op(fmt::format("backward {}", i), {activations[i], weights[i], gradient},
                          {gradients[i], next}, 20));
    gradient = next;
  }
  for (int i = 0; i < layers; ++i) {
    Op update = op(fmt::format("update {}", i), {weights[i], gradients[i], momenta[i]}, {}, 1);
    update.mutates = {0, 2};
    data.ops.push_back(std::move(update));
  }
  data.outputs = {gradient};
  return Graph(std::move(data));
}

}  // namespace lowtide::testing
