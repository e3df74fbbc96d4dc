#pragma once

#include <utility>

#include "support/random_graph.h"

namespace lowtide::testing {

/// Each branch makes a large value (100 bytes), and from it a small one. Branch by branch they need
/// 102 bytes; in the order of the graph both large values are held at once, or both are made twice.
/// Every op costs 1.
inline Graph two_branches() {
  GraphData data;
  data.name = "branches";
  data.tensors = {value("large a", 100), value("large b", 100), value("a", 1), value("b", 1),
                  value("sum", 1)};
  data.ops = {op("make a", {}, {0}), op("make b", {}, {1}), op("take a", {0}, {2}),
              op("take b", {1}, {3}), op("add", {2, 3}, {4})};
  data.outputs = {4};
  return Graph(std::move(data));
}

}  // namespace lowtide::testing
