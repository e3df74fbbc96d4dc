#pragma once

#include <array>
#include <string>
#include <vector>

#include "support/random_graph.h"

namespace lowtide::testing {

/// The earlier ops that each op reads, as a set of bits: a graph of ops with one output each,
/// without sizes and costs.
using Shape = std::vector<unsigned>;

/// Every shape in which each op but the last is read by another, so that all are needed.
inline std::vector<Shape> shapes(int ops) {
  std::vector<Shape> result;
  const int edges = ops * (ops - 1) / 2;
  for (unsigned chosen = 0; chosen < 1U << edges; ++chosen) {
    Shape shape(static_cast<std::size_t>(ops));
    unsigned left = chosen, is_read = 0;
    for (int i = 1; i < ops; ++i) {
      shape[i] = left & ((1U << i) - 1);
      left >>= i;
      is_read |= shape[i];
    }
    if (is_read == (1U << (ops - 1)) - 1) result.push_back(std::move(shape));
  }
  return result;
}

/// Sizes, costs and properties of up to six ops.
struct Pattern {
  std::string name;
  std::array<Bytes, 6> bytes;
  std::array<double, 6> costs;
  int once = kNone;       ///< the op that may run only once
  int workspace = kNone;  ///< the op that takes five bytes of workspace
  bool in_place = false;  ///< whether each op may write over the first value that it reads
};

inline const std::vector<Pattern>& patterns() {
  static const std::vector<Pattern> all{
      {"distinct", {3, 5, 2, 4, 1, 6}, {2, 3, 1, 5, 4, 2}},
      {"equal", {2, 2, 2, 2, 2, 2}, {1, 1, 1, 1, 1, 1}},
      {"falling", {6, 5, 4, 3, 2, 1}, {1, 2, 4, 8, 16, 32}},
      {"free_op", {4, 3, 4, 2, 3, 2}, {3, 0, 2, 0, 1, 1}},
      {"once", {3, 2, 4, 2, 3, 1}, {1, 4, 2, 3, 1, 2}, 1},
      {"workspace", {2, 4, 3, 1, 2, 3}, {2, 1, 3, 1, 2, 1}, kNone, 2},
      {"no_bytes", {3, 0, 4, 2, 0, 3}, {1, 2, 1, 3, 2, 1}},
      {"in_place", {3, 3, 3, 4, 4, 4}, {2, 1, 3, 2, 1, 4}, kNone, kNone, true}};
  return all;
}

/// Adds a resident of one byte; ops without other inputs read it.
inline Graph graph_of(const Shape& shape, const Pattern& pattern) {
  const int ops = static_cast<int>(shape.size());
  GraphData data;
  data.name = pattern.name;
  for (unsigned reads : shape) data.name += "-" + std::to_string(reads);
  data.tensors.push_back(resident("x", 1));
  for (int i = 0; i < ops; ++i) {
    data.tensors.push_back(value("v" + std::to_string(i), pattern.bytes[i]));
    std::vector<TensorId> inputs;
    for (int k = 0; k < i; ++k) {
      if (shape[i] >> k & 1) inputs.push_back(k + 1);
    }
    if (inputs.empty()) inputs.push_back(0);
    data.ops.push_back(op("f" + std::to_string(i), inputs, {i + 1}, pattern.costs[i],
                          i == pattern.workspace ? 5 : 0));
    data.ops.back().recomputable = i != pattern.once;
    if (pattern.in_place) data.ops.back().inplace = {{0, 0}};
  }
  data.outputs = {ops};
  return Graph(std::move(data));
}

}  // namespace lowtide::testing
