#include "profile/synthetic_inputs.h"

#include <gtest/gtest.h>

#include "runtime/graph_maker.h"

namespace lowtide::profile {
namespace {

using runtime::GraphMaker;
using runtime::T;

using Shape = std::vector<std::int64_t>;

/// A product in so many groups.
Graph grouped_product(const Shape& left, const Shape& right, std::int64_t groups) {
  GraphMaker maker("grouped");
  Op op;
  op.name = "product";
  op.type = "aten::_grouped_mm";
  op.inputs = {maker.resident("x", left, Initializer{}), maker.resident("w", right, Initializer{}),
               maker.resident("ends", {groups}, Initializer{}, DType::i64)};
  for (int position : {0, 1, 2}) op.args.push_back(TensorArg{position});
  maker.data().ops.push_back(op);
  return maker.build({});
}

TEST(SyntheticInputs, TheLastGroupHasAll) {
  struct Case {
    Shape left, right;
    std::int64_t groups, all;
  };
  for (const auto& [left, right, groups, all] :
       {Case{{12, 4}, {5, 4, 3}, 5, 12}, Case{{7, 4}, {1, 4, 3}, 1, 7},
        Case{{6, 40}, {40, 3}, 4, 40}, Case{{3, 6, 4}, {4, 9}, 3, 9}}) {
    const Graph graph = grouped_product(left, right, groups);
    const Op& op = graph.op(0);
    std::vector<std::byte> memory(
        static_cast<std::size_t>(synthetic_bytes(graph, op, kArenaAlignment)));
    const at::Tensor ends = synthetic_inputs(graph, op, memory.data(), device::cpu_device()).at(2);
    EXPECT_EQ(ends[-1].item<std::int64_t>(), all);
    EXPECT_EQ(ends.sum().item<std::int64_t>(), all);
  }
}

}  // namespace
}  // namespace lowtide::profile
