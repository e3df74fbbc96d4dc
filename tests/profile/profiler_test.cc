#include "profile/profiler.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "profile/heavy_ops.h"
#include "runtime/graph_maker.h"

namespace lowtide::profile {
namespace {

using runtime::GraphMaker;
using runtime::T;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;
using Integers = std::vector<std::int64_t>;

/// Two convolutions of one kind and one of another, a pooling and an embedding, with their backward
/// ops, which have index inputs.
Graph network() {
  GraphMaker m("network");
  const Initializer ones{Initializer::Kind::constant, 1, 0};
  const auto conv = [&](TensorId x, TensorId w) {
    return m.op1("aten::convolution", {T{x}, T{w}, NoneArg(), Integers{1, 1}, Integers{1, 1},
                                       Integers{1, 1}, false, Integers{0, 0}, std::int64_t{1}});
  };
  const TensorId x = m.resident("x", {2, 8, 16, 16}, ones);
  const TensorId w = m.resident("w", {8, 8, 3, 3}, ones);
  const TensorId v = m.resident("v", {4, 8, 3, 3}, ones);
  const TensorId a = conv(x, w);
  const TensorId b = conv(a, w);
  const TensorId c = conv(b, v);
  const auto pooled = m.op("aten::max_pool2d_with_indices", {T{c}, Integers{2, 2}});
  const TensorId back = m.op1("aten::max_pool2d_with_indices_backward",
                              {T{pooled[0]}, T{c}, Integers{2, 2}, Integers{2, 2}, Integers{0, 0},
                               Integers{1, 1}, false, T{pooled[1]}});
  const TensorId table = m.resident("table", {11, 6}, ones);
  const TensorId tokens = m.resident("tokens", {3, 4}, Initializer{}, DType::i64);
  const TensorId rows = m.op1("aten::embedding", {T{table}, T{tokens}});
  const TensorId grad = m.op1("aten::embedding_dense_backward",
                              {T{rows}, T{tokens}, std::int64_t{11}, std::int64_t{-1}, false});
  const auto dropped = m.op("aten::native_dropout", {T{grad}, 0.5, true});
  const TensorId view = m.op1("aten::view", {T{dropped[0]}, Integers{-1}});
  return m.build({back, view});
}

TEST(Profiler, MeasuresEachDistinctOpOnce) {
  const Graph graph = network();
  cost::Profile profile;
  EXPECT_EQ(profile_ops(graph, profile, Control()), 7);  // 9 ops: one repeats, one is a view
  EXPECT_EQ(profile.device, device::cpu_device().name());
  EXPECT_EQ(profile_ops(graph, profile, Control()), 0);
  for (OpId id = 0; id < graph.num_ops(); ++id) {
    ASSERT_TRUE(profile.ops.contains(cost::profile_key(graph, id)));
  }
}

TEST(Profiler, MeasuringAgainKeepsTheSmallerTimes) {
  const Graph graph = network();
  cost::Profile profile;
  profile_ops(graph, profile, Control());
  const std::string first = cost::profile_key(graph, 0);
  const std::string second = cost::profile_key(graph, 1);
  profile.ops[first] = {.microseconds = 1e9, .workspace_bytes = 1, .allocations = {}};
  profile.ops[second].microseconds = 1e-9;
  EXPECT_EQ(profile_ops(graph, profile, Control(), Measure::again), 7);
  EXPECT_LT(profile.ops[first].microseconds, 1e9);
  EXPECT_FALSE(profile.ops[first].allocations.empty());
  EXPECT_EQ(profile.ops[second].microseconds, 1e-9);
}

/// A product that takes most of a step's time, and small sums.
Graph with_a_heavy_product() {
  GraphMaker m("heavy");
  const Initializer ones{Initializer::Kind::constant, 1, 0};
  const TensorId a = m.resident("a", {256, 256}, ones);
  const TensorId b = m.resident("b", {4}, ones);
  TensorId product = a;
  for (int i = 0; i < 3; ++i) product = m.op1("aten::mm", {T{product}, T{a}});
  const TensorId sum = m.op1("aten::add.Tensor", {T{b}, T{b}, std::int64_t{1}});
  return m.build({product, sum});
}

TEST(Profiler, OpsThatDecideTheTimeAreMeasuredAgain) {
  std::vector<std::string> said;
  const Control control(0, [&](const std::string& message) { said.push_back(message); });
  cost::Profile profile;
  const Graph graph = with_a_heavy_product();
  EXPECT_EQ(profile_ops(graph, profile, control), 2);
  EXPECT_THAT(said, ::testing::Contains("profiling again: aten::mm"));
  EXPECT_THAT(said, ::testing::Not(::testing::Contains("profiling again: aten::add.Tensor")));
}

TEST(Profiler, SomeOpsOfAGraphAreMeasuredAlone) {
  const Graph graph = network();
  cost::Profile profile;
  EXPECT_EQ(profile_some(graph, std::vector<OpId>{0, 1}, profile, Control()), 1);  // of one kind
  EXPECT_TRUE(profile.ops.contains(cost::profile_key(graph, 0)));
  EXPECT_FALSE(profile.ops.contains(cost::profile_key(graph, 2)));
}

TEST(HeavyOps, AreThoseWhoseRunsTogetherTakeATwentiethOfTheStep) {
  GraphData data = with_a_heavy_product().data();
  for (Op& op : data.ops) op.cost = op.type == "aten::mm" ? 2 : 0.2;
  EXPECT_THAT(heavy_ops(Graph(data)), ::testing::ElementsAre(0));
  for (Op& op : data.ops) op.cost = op.type == "aten::mm" ? 2 : 0.4;
  EXPECT_THAT(heavy_ops(Graph(data)), ::testing::ElementsAre(0, 3));
}

TEST(Profiler, FindsScratchMemoryAndOutputs) {
  const Graph graph = network();
  cost::Profile profile;
  profile_ops(graph, profile, Control());
  const cost::OpProfile& conv = profile.ops.at(cost::profile_key(graph, 0));
  const Bytes output = graph.tensor(graph.op(0).outputs[0]).bytes;
  EXPECT_GT(conv.microseconds, 0);
  EXPECT_GE(conv.workspace_bytes, output);
  EXPECT_EQ(std::ranges::count(conv.allocations, 0, &Allocation::output), 1);
  for (const Allocation& a : conv.allocations) {
    EXPECT_EQ(a.offset % 64, 0);
    if (a.output == -1) {
      EXPECT_LE(a.offset + a.bytes, conv.workspace_bytes);
    }
  }
  const cost::OpProfile& pool = profile.ops.at(cost::profile_key(graph, 3));
  EXPECT_EQ(std::ranges::count(pool.allocations, 1, &Allocation::output), 1);
}

TEST(Profiler, ViewsCostNothing) {
  const Graph graph = network();
  cost::Profile profile;
  profile_ops(graph, profile, Control());
  const OpId view = graph.num_ops() - 1;
  ASSERT_TRUE(graph.is_view_op(view));
  EXPECT_EQ(profile.ops.at(cost::profile_key(graph, view)), cost::OpProfile{});
}

TEST(Profiler, LeavesTheGlobalGeneratorAlone) {
  const Graph graph = network();
  at::manual_seed(9);
  const at::Tensor expected = at::rand({4});
  at::manual_seed(9);
  cost::Profile profile;
  profile_ops(graph, profile, Control());
  EXPECT_TRUE(at::equal(at::rand({4}), expected));
}

TEST(Profiler, StopsWhenAskedAndKeepsWhatItHas) {
  const Graph graph = network();
  cost::Profile profile;
  int reports = 0;
  const Control control(0, [&](const std::string&) {
    if (++reports == 3) Control::request_stop();
  });
  EXPECT_EQ(profile_ops(graph, profile, control), 3);
  Control::clear_stop();
  EXPECT_EQ(profile_ops(graph, profile, Control()), 4);
}

TEST(Profiler, RefusesTheProfileOfAnotherDevice) {
  cost::Profile profile{.device = "Z80, 1 threads, LibTorch 0.1", .ops = {}};
  EXPECT_THAT([&] { profile_ops(network(), profile, Control()); },
              ThrowsMessage<InputError>(
                  ::testing::AllOf(HasSubstr("Z80"), HasSubstr(device::cpu_device().name()))));
}

TEST(Profiler, NamesTheOpThatFails) {
  GraphMaker m("failing");
  const TensorId x = m.resident("x", {2, 3}, Initializer{});
  const TensorId y = m.op1("aten::view", {T{x}, Integers{3, 2}});
  const TensorId z = m.op1("aten::mm", {T{x}, T{y}});
  m.data().tensors[static_cast<std::size_t>(y)].shape = {2, 3};
  const Graph graph = m.build({z});
  cost::Profile profile;
  EXPECT_THAT([&] { profile_ops(graph, profile, Control()); },
              ThrowsMessage<Error>(HasSubstr("mm_1")));
}

}  // namespace
}  // namespace lowtide::profile
