#include "profile/synthetic_inputs.h"

#include <gtest/gtest.h>

#include "runtime/graph_maker.h"

namespace lowtide::profile {
namespace {

using runtime::GraphMaker;
using runtime::T;

/// A product of `rows` rows in as many groups as there are matrices.
Graph grouped_product(std::int64_t rows, std::int64_t groups) {
  GraphMaker maker("grouped");
  Op op;
  op.name = "product";
  op.type = "transformers::grouped_mm_fallback";
  op.inputs = {maker.resident("x", {rows, 4}, Initializer{}),
               maker.resident("w", {groups, 4, 3}, Initializer{}),
               maker.resident("ends", {groups}, Initializer{}, DType::i64)};
  for (int position : {0, 1, 2}) op.args.push_back(TensorArg{position});
  maker.data().ops.push_back(op);
  return maker.build({});
}

TEST(SyntheticInputs, GroupsOfRowsAreAllFilled) {
  for (const auto& [rows, groups] : {std::pair{12, 4}, {10, 3}, {64, 1}, {5, 8}}) {
    const Graph graph = grouped_product(rows, groups);
    const Op& op = graph.op(0);
    std::vector<std::byte> memory(
        static_cast<std::size_t>(synthetic_bytes(graph, op, kArenaAlignment)));
    const at::Tensor ends = synthetic_inputs(graph, op, memory.data(), device::cpu_device()).at(2);
    EXPECT_EQ(ends[-1].item<std::int64_t>(), rows);
    EXPECT_TRUE((ends.diff() >= rows / groups).all().item<bool>());
    EXPECT_TRUE((ends.diff() <= rows / groups + 1).all().item<bool>());
  }
}

}  // namespace
}  // namespace lowtide::profile
