#include "planner/transfer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "plan/in_place.h"
#include "plan/lower.h"
#include "plan/verify.h"
#include "support/random_graph.h"

namespace lowtide::planner {
namespace {

using testing::chain_graph;
using testing::random_executions;
using testing::random_graph;

constexpr Bytes kAmple = Bytes{1} << 40;

/// The same ops, with tensors and workspaces of other sizes.
Graph resized(const Graph& graph, std::uint64_t seed) {
  std::mt19937_64 draw(seed);
  GraphData data = graph.data();
  for (Tensor& tensor : data.tensors) {
    if (tensor.bytes > 0) tensor.bytes = static_cast<Bytes>(1 + draw() % 5000);
  }
  for (Op& op : data.ops) {
    op.workspace_bytes *= static_cast<Bytes>(draw() % 3);
    op.inplace.clear();  // pairs need equal sizes
  }
  return Graph(std::move(data));
}

TEST(Transferred, RunsTheSameOpsInTheSameOrderAndIsValid) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    const Graph graph = random_graph(seed);
    const Graph other = resized(graph, seed);
    const Plan plan = with_in_place(graph, lower(graph, random_executions(graph, seed)));
    const std::optional<Plan> found = transfer(other, graph, plan, kAmple);
    ASSERT_TRUE(found) << "seed " << seed;
    EXPECT_EQ(executions_of(*found), executions_of(plan)) << "seed " << seed;
    EXPECT_EQ(verify(other, *found), std::nullopt) << "seed " << seed;
  }
}

TEST(Transferred, HoldsTheBudgetOrGivesNothing) {
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    const Graph graph = random_graph(seed);
    const Plan plan = lower(graph, random_executions(graph, seed));
    const Bytes arena = transfer(graph, graph, plan, kAmple)->layout->arena_bytes;
    for (const Bytes budget : {arena, arena - 1}) {
      const std::optional<Plan> found = transfer(graph, graph, plan, budget);
      EXPECT_TRUE(found || budget < arena) << "seed " << seed;
      EXPECT_LE(found ? found->layout->arena_bytes : 0, budget) << "seed " << seed;
    }
    EXPECT_FALSE(transfer(graph, graph, plan, graph.resident_bytes() - 1)) << "seed " << seed;
  }
}

TEST(Transferred, HoldsOtherOutputs) {
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    const Graph graph = random_graph(seed);
    GraphData data = graph.data();
    const TensorId output = graph.op(static_cast<OpId>(seed) % graph.num_ops()).outputs.front();
    if (std::ranges::find(data.outputs, output) == data.outputs.end()) {
      data.outputs.push_back(output);
    }
    const Graph other(std::move(data));
    const Plan plan = with_in_place(graph, lower(graph, random_executions(graph, seed)));
    const std::optional<Plan> found = transfer(other, graph, plan, kAmple);
    ASSERT_TRUE(found) << "seed " << seed;
    EXPECT_EQ(verify(other, *found), std::nullopt) << "seed " << seed;
  }
}

TEST(Transferred, NeedsTheSameStructure) {
  const Graph chain = chain_graph(10);
  const Plan plan = keep_all(chain);
  EXPECT_TRUE(transfer(chain_graph(10, 4096), chain, plan, kAmple));
  EXPECT_FALSE(transfer(chain_graph(11), chain, plan, kAmple));
  GraphData data = chain.data();
  data.ops[3].recomputable = !data.ops[3].recomputable;
  EXPECT_FALSE(transfer(Graph(std::move(data)), chain, plan, kAmple));
}

}  // namespace
}  // namespace lowtide::planner
