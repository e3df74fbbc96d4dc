#include "planner/smaller_arena.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <random>
#include <utility>
#include <vector>

#include "graph/io.h"
#include "layout/sections.h"
#include "plan/verify.h"
#include "planner/realize.h"
#include "support/brute_force.h"
#include "support/check_plan.h"
#include "support/random_graph.h"
#include "support/sweep.h"

namespace lowtide::planner {
namespace {

using testing::op;
using testing::value;

PlacedPlan placed_plan(const Graph& graph, std::vector<OpId> executions) {
  Plan plan = with_addresses(graph, lower_in_place(graph, executions), 0);
  return {std::move(plan), std::move(executions)};
}

/// Some of the reruns that are allowed.
PlacedPlan with_random_reruns(const Graph& graph, std::uint64_t seed) {
  const remat::StageGraph stages(graph);
  std::mt19937_64 random(seed);
  std::vector<remat::Event> reruns = testing::allowed_events(stages);
  std::erase_if(reruns, [&](remat::Event) { return random() % 4 != 0; });
  return placed_plan(graph, remat::executions_of(stages, reruns));
}

/// With views, workspaces, effects and writes in place.
TEST(SmallerArenaProperty, NeedsNoMoreBytesAndIsValid) {
  int smaller = 0;
  for (std::uint64_t seed = 0; seed < testing::sweep(400u, 20u); ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    const Graph graph =
        seed % 2 == 0 ? testing::random_graph(seed) : testing::random_step(seed, 60, 40);
    const PlacedPlan given = with_random_reruns(graph, seed);
    const Bytes before = layout::needed_bytes(graph, given.plan);
    const PlacedPlan better = with_smaller_arena(graph, given, Control::by_work(0.05));
    const Bytes after = layout::needed_bytes(graph, better.plan);
    EXPECT_LE(after, before);
    const auto violation = verify(graph, better.plan, after);
    EXPECT_FALSE(violation) << violation->message;
    EXPECT_EQ(lower_in_place(graph, better.executions).actions, better.plan.actions);
    smaller += after < before;
  }
  EXPECT_GT(smaller, 5);
}

/// Where plans of few bytes in use leave few ways to place their buffers.
TEST(SmallerArena, TakesMuchOfWhatLayoutsWaste) {
  const Graph graph = read_graph(LOWTIDE_SOURCE_DIR "/data/graphs/layered-250.json");
  const PlacedPlan given = with_random_reruns(graph, 1);
  const PlacedPlan better = with_smaller_arena(graph, given, Control::by_work(1));
  const Bytes arena = better.plan.layout->arena_bytes;
  EXPECT_LT(arena, 0.9 * static_cast<double>(given.plan.layout->arena_bytes));
  EXPECT_TRUE(testing::is_valid_plan(graph, better.plan, arena));
}

TEST(SmallerArena, IsTheSameAgain) {
  const Graph graph = read_graph(LOWTIDE_SOURCE_DIR "/data/graphs/layered-100.json");
  const PlacedPlan given = with_random_reruns(graph, 1);
  const PlacedPlan first = with_smaller_arena(graph, given, Control::by_work(0.2));
  const PlacedPlan second = with_smaller_arena(graph, given, Control::by_work(0.2));
  EXPECT_EQ(first.plan.actions, second.plan.actions);
  EXPECT_EQ(first.plan.layout, second.plan.layout);
}

TEST(SmallerArena, LeavesAPlanAloneWhereNothingMayBeMadeAgain) {
  GraphData data;
  data.tensors = {value("a", 4), value("b", 2)};
  data.ops = {op("make_a", {}, {0}), op("make_b", {0}, {1})};
  data.outputs = {1};
  const Graph graph(std::move(data));
  const PlacedPlan given = placed_plan(graph, {0, 1});
  EXPECT_EQ(with_smaller_arena(graph, given, Control()).plan.actions, given.plan.actions);
}

}  // namespace
}  // namespace lowtide::planner
