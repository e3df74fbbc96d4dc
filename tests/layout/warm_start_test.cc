#include "layout/warm_start.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "graph/handed_out.h"
#include "plan/in_place.h"
#include "plan/lower.h"
#include "plan/verify.h"
#include "support/check_plan.h"
#include "support/random_graph.h"

namespace lowtide::layout {
namespace {

using testing::op;
using testing::value;

Plan plan_of(const Graph& graph, std::span<const OpId> executions) {
  Plan plan = with_in_place(graph, lower(graph, executions));
  plan.layout = assign_addresses(graph, plan, {.alignment = 1});
  return plan;
}

Bytes offset_of(const Layout& layout, std::size_t action) {
  return layout.placements.at(action).at(0).offset;
}

/// a and b are made and read; and c, which exactly fits the place of b.
Graph three_values() {
  GraphData data;
  data.tensors = {value("a", 4), value("b", 2), value("c", 2), value("d", 1)};
  data.ops = {op("make_a", {}, {0}), op("make_b", {}, {1}), op("make_c", {0}, {2}),
              op("make_d", {0, 2}, {3})};
  data.outputs = {3};
  return Graph(std::move(data));
}

/// Values needed no longer than before stay in place; a value that comes back finds the hole.
TEST(WarmStart, LeavesWhatStaysAndFillsHoles) {
  const Graph graph = three_values();
  const std::vector<OpId> once{0, 1, 2, 3};
  const std::vector<OpId> twice{0, 1, 2, 1, 3};
  const Plan known = plan_of(graph, once);
  Plan plan = with_in_place(graph, lower(graph, twice));
  plan.layout = WarmStart(graph, known).layout_of(plan, {1, 8, 1'000'000}, Control()).layout;
  ASSERT_TRUE(plan.layout);
  EXPECT_LE(plan.layout->arena_bytes, 8);
  EXPECT_EQ(offset_of(*plan.layout, 0), offset_of(*known.layout, 0));
  EXPECT_EQ(offset_of(*plan.layout, 1), offset_of(*known.layout, 1));
  EXPECT_TRUE(testing::is_valid_plan(graph, plan));
}

TEST(WarmStart, DoesNothingForWhatNoLayoutIsWithin) {
  const Graph graph = three_values();
  const std::vector<OpId> once{0, 1, 2, 3};
  const Plan known = plan_of(graph, once);
  const auto attempt = WarmStart(graph, known).layout_of(known, {1, 5, 1'000'000}, Control());
  EXPECT_FALSE(attempt.layout);
  EXPECT_EQ(attempt.work, 0);
}

/// Moved values lie on whole units, and the last unit is not whole.
TEST(WarmStart, StaysWithinACapacityThatIsNoMultipleOfTheAlignment) {
  const Graph graph = testing::chain_graph(10);
  std::vector<OpId> once(graph.num_ops());
  std::iota(once.begin(), once.end(), 0);
  std::vector<OpId> twice = once;
  twice.insert(twice.begin() + graph.num_ops() / 2 + 2, 0);
  Plan known = with_in_place(graph, lower(graph, twice));
  known.layout = assign_addresses(graph, known);
  Plan plan = with_in_place(graph, lower(graph, once));
  const Bytes least = plan.peak_bytes - graph.resident_bytes();
  for (Bytes more : {0, 1, 63, 65}) {
    SCOPED_TRACE(more);
    const packing::PackingGoal goal{packing::kArenaAlignment, least + more, 1'000'000};
    plan.layout = WarmStart(graph, known).layout_of(plan, goal, Control()).layout;
    ASSERT_TRUE(plan.layout);
    EXPECT_TRUE(testing::is_valid_plan(graph, plan, graph.resident_bytes() + least + more));
  }
}

TEST(WarmStart, GivesUpWithTheWork) {
  const Graph graph = three_values();
  const std::vector<OpId> once{0, 1, 2, 3};
  const std::vector<OpId> twice{0, 1, 2, 1, 3};
  const Plan known = plan_of(graph, once);
  const Plan plan = with_in_place(graph, lower(graph, twice));
  EXPECT_FALSE(WarmStart(graph, known).layout_of(plan, {1, 8, 0}, Control()).layout);
}

/// Runs of one op are added and removed, in place or not; with views, workspaces and effects.
TEST(WarmStartProperty, LayoutsAreValidAndWithinTheCapacity) {
  int found = 0;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    const Graph drawn = testing::random_graph(seed);
    const Graph graph = with_after_bytes(drawn, static_cast<Bytes>(seed % 3 * 2000));
    const Plan known = plan_of(graph, testing::random_executions(graph, seed));
    for (std::uint64_t other : {seed, seed + 1000}) {
      Plan plan = with_in_place(graph, lower(graph, testing::random_executions(graph, other)));
      const Bytes capacity = (plan.peak_bytes - graph.resident_bytes()) * 11 / 10;
      const auto attempt =
          WarmStart(graph, known).layout_of(plan, {1, capacity, 1'000'000}, Control());
      if (!attempt.layout) continue;
      ++found;
      plan.layout = attempt.layout;
      EXPECT_LE(plan.layout->arena_bytes, graph.resident_bytes() + capacity);
      const auto violation = verify(graph, plan);
      EXPECT_FALSE(violation) << violation->message;
    }
  }
  EXPECT_GT(found, 60);
}

}  // namespace
}  // namespace lowtide::layout
