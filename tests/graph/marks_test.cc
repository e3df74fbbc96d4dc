#include "graph/marks.h"

#include <gtest/gtest.h>

#include <string>

namespace lowtide {
namespace {

/// x (resident), and views of it, one op after the other.
Graph views_of_x(const std::vector<std::string>& types) {
  GraphData data;
  Tensor x;
  x.name = "x";
  x.bytes = 8;
  x.kind = Kind::resident;
  data.tensors.push_back(x);
  for (const std::string& type : types) {
    Tensor view;
    view.name = type;
    view.alias_of = 0;
    Op op;
    op.name = op.type = type;
    op.inputs = {static_cast<TensorId>(data.tensors.size()) - 1};
    op.outputs = {static_cast<TensorId>(data.tensors.size())};
    data.tensors.push_back(view);
    data.ops.push_back(op);
  }
  return Graph(data);
}

TEST(Marks, AConjugateOfAConjugateIsNone) {
  const Graph graph = views_of_x({"aten::_conj", "aten::t", "aten::_conj", "aten::_neg_view"});
  EXPECT_EQ(marks_of(graph, 0), Marks{});
  EXPECT_EQ(marks_of(graph, 1), Marks{.conjugate = true});
  EXPECT_EQ(marks_of(graph, 2), Marks{.conjugate = true});
  EXPECT_EQ(marks_of(graph, 3), Marks{});
  EXPECT_EQ(marks_of(graph, 4), Marks{.negative = true});
}

TEST(Marks, AnOpMayMakeWhatItShows) {
  GraphData data = views_of_x({"aten::_conj"}).data();
  data.tensors[0].kind = Kind::value;
  data.ops[0].inputs = {};
  data.ops[0].outputs = {0, 1};
  EXPECT_EQ(marks_of(Graph(data), 1), Marks{.conjugate = true});
}

}  // namespace
}  // namespace lowtide
