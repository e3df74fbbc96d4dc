#pragma once

#include <fmt/format.h>

#include <string>
#include <utility>
#include <vector>

#include "support/random_graph.h"

namespace lowtide::testing {

/// A step of layers of attention: each reads what the one before gives, makes `scores`, `softmax`,
/// `dropped` and `out` from it, all of which its backward op reads, and gives their sum with its
/// input. `scale` is read in the forward pass alone.
class AttentionStep {
 public:
  explicit AttentionStep(int layers) {
    data_.tensors.push_back(resident("x", 8));
    TensorId hidden = make("embed", "aten::embedding", {0}, 100);
    std::vector<std::vector<TensorId>> waiting;
    for (int l = 0; l < layers; ++l) {
      const std::string layer = fmt::format("blocks.{}.", l);
      const TensorId query = make(layer + "query", "aten::linear", {hidden}, 100, 10);
      const TensorId scores = make(layer + "scores", "aten::bmm", {query}, 400, 5);
      const TensorId scale = make(layer + "scale", "aten::div.Tensor", {scores}, 400);
      const TensorId softmax = make(layer + "softmax", "aten::_softmax", {scale}, 400);
      const TensorId dropped = make(layer + "dropped", "aten::native_dropout", {softmax}, 400);
      const TensorId out = make(layer + "out", "aten::bmm", {dropped, query}, 100, 5);
      waiting.push_back({hidden, query, softmax, dropped, out});
      hidden = make(layer + "sum", "aten::add.Tensor", {hidden, out}, 100);
    }
    TensorId gradient = make("loss", "aten::mse_loss", {hidden}, 100);
    for (auto values = waiting.rbegin(); values != waiting.rend(); ++values) {
      values->push_back(gradient);
      gradient = make("backward", "backward", *values, 100, 40);
      data_.ops.back().phase = Phase::backward;
    }
    data_.outputs = {gradient};
  }

  Graph graph() const { return Graph(data_); }

 private:
  TensorId make(const std::string& name, const std::string& type, std::vector<TensorId> inputs,
                Bytes bytes, double cost = 1) {
    const auto made = static_cast<TensorId>(data_.tensors.size());
    data_.tensors.push_back(value(name, bytes));
    data_.ops.push_back(op(name, std::move(inputs), {made}, cost));
    data_.ops.back().type = type;
    return made;
  }

  GraphData data_;
};

}  // namespace lowtide::testing
