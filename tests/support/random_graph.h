#pragma once

#include <cstdint>
#include <vector>

#include "plan/plan.h"

namespace lowtide::testing {

/// Features of a random graph, each used with some probability.
struct RandomGraphOptions {
  int ops = 40;
  bool views = true;         ///< view ops, also of residents and of views
  bool multi_output = true;  ///< up to three outputs, some of them unused or of 0 bytes
  bool workspaces = true;
  bool in_place = true;
  bool random_ops = true;
  bool effects = true;       ///< ops that write residents, ops that may run only once
};

/// A valid graph with residents, values and outputs. The same seed gives the same graph on every
/// machine.
Graph random_graph(std::uint64_t seed, const RandomGraphOptions& options = {});

/// A valid order of executions with recomputations: every op in the listed order, and before some
/// of them earlier ops again, where the graph allows it. Some view ops are left out.
std::vector<OpId> random_executions(const Graph& graph, std::uint64_t seed);

/// The training graph of a chain: forward op i makes activation i from activation i - 1; backward
/// op i reads activations i and i - 1 and the gradient after it. The output is the first gradient.
/// Every activation has `bytes`, every op costs 1, backward ops 2.
Graph chain_graph(int layers, Bytes bytes = 1024);

/// Each op reads so many of the values before it, as far as there are any. Values have 64 bytes.
Graph wide_step(int ops, int fan_in);

/// A small training step: forward ops that read one or two recent values, and backward ops, which
/// run once, that read the gradient after them and any of the forward values.
Graph random_step(std::uint64_t seed, int forward, int backward);

/// A tensor that owns bytes, and an op, to write small graphs by hand.
Tensor value(std::string name, Bytes bytes);
Tensor resident(std::string name, Bytes bytes);
Tensor view(std::string name, TensorId of);
Op op(std::string name, std::vector<TensorId> inputs, std::vector<TensorId> outputs,
      double cost = 1, Bytes workspace = 0);

/// Actions, to write small plans by hand.
Action run(OpId id, std::vector<int> in_place = {});
Action free_of(TensorId id);

}  // namespace lowtide::testing
