#include "graph/boundary.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "graph/extent.h"
#include "graph/handed_out.h"

namespace lowtide {
namespace {

Tensor value(std::string name, Shape strides) {
  Tensor tensor;
  tensor.name = std::move(name);
  tensor.dtype = DType::f32;
  tensor.shape = {3, 4};
  tensor.strides = std::move(strides);
  return tensor;
}

/// x (resident) -> a result -> boundary -> its gradient, both with these strides.
Graph in_halves(const Shape& strides) {
  GraphData data;
  data.tensors = {value("x", {}), value("result", strides), value("gradient", strides)};
  data.tensors[0].kind = Kind::resident;
  data.tensors[0].bytes = 48;
  data.ops.resize(2);
  data.ops[0].name = data.ops[0].type = "aten::tanh";
  data.ops[0].inputs = {0};
  data.ops[0].outputs = {1};
  data.ops[1].name = data.ops[1].type = kBoundary;
  data.ops[1].inputs = {1};
  data.ops[1].outputs = {2};
  return Graph(data);
}

TEST(Boundary, ForeignValuesTakeTheirElements) {
  EXPECT_EQ(foreign_bytes(in_halves({})), 2 * 48);
  EXPECT_EQ(foreign_bytes(in_halves({1, 3})), 2 * 48);
}

TEST(Boundary, ForeignValuesWithGapsTakeThemTooAndGradientsAreCopied) {
  const Bytes extent = 4 * (2 * 40 + 3 * 10 + 1);
  EXPECT_EQ(foreign_bytes(in_halves({40, 10})), 2 * extent + 48);
}

TEST(Boundary, ADroppedResultOwnsItsGaps) {
  const Graph graph = in_halves({40, 10});
  const Graph dropped = with_results_dropped(graph, droppable_results(graph));
  EXPECT_EQ(dropped.tensor(1).bytes, extent_bytes(graph.tensor(1)));
}

TEST(Boundary, AnExpandedGradientTakesWhatItRepeats) {
  EXPECT_EQ(extent_bytes(in_halves({0, 1}).tensor(2)), 16);
  EXPECT_EQ(foreign_bytes(in_halves({0, 1})), 2 * 16);
}

}  // namespace
}  // namespace lowtide
