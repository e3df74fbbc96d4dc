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

/// An op with these inputs and arguments, which is not run.
Graph one_op(const std::string& type, std::vector<std::pair<Shape, DType>> inputs,
             std::vector<Argument> args, const Shape& result) {
  GraphMaker maker("op");
  Op op;
  op.name = "op";
  op.type = type;
  for (const auto& [shape, dtype] : inputs) {
    const std::string name = "x" + std::to_string(op.inputs.size());
    op.inputs.push_back(maker.resident(name, shape, Initializer{}, dtype));
  }
  op.args = std::move(args);
  Tensor made;
  made.name = "result";
  made.dtype = DType::f32;
  made.shape = result;
  op.outputs = {static_cast<TensorId>(maker.data().tensors.size())};
  maker.data().tensors.push_back(made);
  maker.data().ops.push_back(op);
  return maker.build({});
}

at::Tensor input_of(const Graph& graph, std::size_t position) {
  const Op& op = graph.op(0);
  static std::vector<std::byte> memory;
  memory.resize(static_cast<std::size_t>(synthetic_bytes(graph, op, kArenaAlignment)));
  return synthetic_inputs(graph, op, memory.data(), device::cpu_device()).at(position);
}

TEST(SyntheticInputs, LengthsAndRepeatsComeToTheSize) {
  const Graph repeated = one_op("aten::repeat_interleave.Tensor", {{{4}, DType::i64}},
                                {TensorArg{0}, std::int64_t{9}}, {9});
  EXPECT_EQ(input_of(repeated, 0).sum().item<std::int64_t>(), 9);
  const Graph reduced =
      one_op("aten::segment_reduce", {{{2, 7}, DType::f32}, {{2, 3}, DType::i64}},
             {TensorArg{0}, std::string("sum"), TensorArg{1}, {}, {}, std::int64_t{1}}, {2, 3});
  EXPECT_TRUE(input_of(reduced, 1).sum(1).eq(7).all().item<bool>());
}

TEST(SyntheticInputs, AMaskChoosesAsMuchAsThereIs) {
  const std::vector<Argument> args{TensorArg{0}, TensorArg{1}, TensorArg{2}};
  for (const auto& [mask, source, ones] :
       {std::tuple{Shape{6, 4}, Shape{2, 4}, 8}, std::tuple{Shape{6, 1}, Shape{2, 4}, 2},
        std::tuple{Shape{6, 4}, Shape{9, 4}, 24}, std::tuple{Shape{6, 4}, Shape{0, 4}, 0}}) {
    const Graph graph =
        one_op("aten::masked_scatter",
               {{{6, 4}, DType::f32}, {mask, DType::boolean}, {source, DType::f32}}, args, {6, 4});
    EXPECT_EQ(input_of(graph, 1).sum().item<std::int64_t>(), ones);
  }
  const Graph gathered =
      one_op("aten::masked_scatter_backward", {{{6, 4}, DType::f32}, {{6, 4}, DType::boolean}},
             {TensorArg{0}, TensorArg{1}, std::vector<std::int64_t>{5}}, {5});
  EXPECT_EQ(input_of(gathered, 1).sum().item<std::int64_t>(), 5);
}

}  // namespace
}  // namespace lowtide::profile
