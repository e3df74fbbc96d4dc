#pragma once

#include <string>
#include <utility>
#include <vector>

#include "support/random_graph.h"

namespace lowtide::testing {

/// A recurrent step of 20 states of 100 bytes. Each state is made from the one before; op 20 stacks
/// all. The scores of the stack need much memory before the stack is read again, for a gradient.
/// Then states are read backwards. A state and a step back cost 10, the stack 1, ops on it 5 each.
inline Graph recurrent_step() {
  constexpr int kStates = 20;
  constexpr Bytes kBytes = 100;
  GraphData data;
  data.name = "recurrent";
  data.tensors = {resident("input", kBytes)};
  const auto add = [&](const std::string& name, std::vector<TensorId> inputs, Bytes bytes,
                       double cost) {
    const auto made = static_cast<TensorId>(data.tensors.size());
    data.tensors.push_back(value(name, bytes));
    data.ops.push_back(op(name, std::move(inputs), {made}, cost));
    return made;
  };
  std::vector<TensorId> states;
  for (int i = 0; i < kStates; ++i) {
    const TensorId last = states.empty() ? 0 : states.back();
    states.push_back(add("state " + std::to_string(i), {last}, kBytes, 10));
  }
  const TensorId stack = add("stack", states, kStates * kBytes, 1);
  const TensorId scores = add("scores", {stack}, kStates * kBytes / 2, 5);
  const TensorId loss = add("loss", {scores}, kStates * kBytes / 2, 5);
  const TensorId weight = add("gradient of the weight", {stack, loss}, kBytes, 5);
  TensorId gradient = add("gradient", {loss}, kBytes, 5);
  for (int i = kStates; i-- > 0;) {
    gradient = add("back " + std::to_string(i), {states[i], gradient}, kBytes, 10);
  }
  data.outputs = {weight, gradient};
  return Graph(std::move(data));
}

}  // namespace lowtide::testing
