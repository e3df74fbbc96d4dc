#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>

#include "layout/layout.h"
#include "plan/in_place.h"
#include "plan/lower.h"
#include "support/check_plan.h"
#include "support/random_graph.h"

namespace lowtide::layout {
namespace {

using testing::op;
using testing::resident;
using testing::value;
using testing::view;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

/// x (resident, 10) -> a -> b, b may be written over a; both of 128 bytes.
GraphData two_ops() {
  GraphData data;
  data.tensors = {resident("x", 10), value("a", 128), value("b", 128)};
  data.ops = {op("make_a", {0}, {1}, 1, 64), op("make_b", {1}, {2})};
  data.ops[1].inplace = {{0, 0}};
  data.outputs = {2};
  return data;
}

TEST(AssignAddresses, GivesEachStorageAndWorkspaceAPlace) {
  const Graph graph(two_ops());
  Plan plan = keep_all(graph);
  plan.layout = assign_addresses(graph, plan);
  ASSERT_EQ(plan.layout->placements.size(), 3u);
  EXPECT_EQ(plan.layout->placements[0].size(), 2u);
  EXPECT_EQ(plan.layout->placements[1].size(), 1u);
  EXPECT_THAT(plan.layout->placements[2], IsEmpty());  // the free of a
  EXPECT_EQ(plan.layout->arena_bytes, 10 + 256);
  EXPECT_TRUE(testing::is_valid_plan(graph, plan));
}

TEST(AssignAddresses, AnInPlaceOutputStaysWhereItsInputLies) {
  const Graph graph(two_ops());
  Plan plan = with_in_place(graph, keep_all(graph));
  plan.layout = assign_addresses(graph, plan);
  EXPECT_THAT(plan.layout->placements[1], IsEmpty());
  EXPECT_EQ(plan.layout->arena_bytes, 10 + 128 + 64);
  EXPECT_TRUE(testing::is_valid_plan(graph, plan));
}

TEST(AssignAddresses, KeepsTheRestOfALargerSourceWhileItIsOverwritten) {
  // A plan from another tool writes 64 bytes over 128: the op still reads all 128 while it runs, so
  // its workspace may not lie there.
  GraphData data = two_ops();
  data.tensors[2].bytes = 64;
  data.ops[0].workspace_bytes = 0;
  data.ops[1].workspace_bytes = 64;
  const Graph graph(std::move(data));
  Plan plan;
  plan.actions = {{Verb::run, 0, {}}, {Verb::run, 1, {0}}};
  const Layout layout = assign_addresses(graph, plan);
  EXPECT_EQ(layout.arena_bytes, 10 + 128 + 64);
}

TEST(AssignAddresses, WhatComesBackGetsANewPlace) {
  const Graph graph(two_ops());
  Plan plan;
  plan.actions = {{Verb::run, 0, {}},  {Verb::offload, 1, {}},  {Verb::wait, 1, {}},
                  {Verb::free, 1, {}}, {Verb::prefetch, 1, {}}, {Verb::wait, 1, {}},
                  {Verb::run, 1, {}}};
  const Layout layout = assign_addresses(graph, plan);
  ASSERT_EQ(layout.placements[4].size(), 1u);
  EXPECT_EQ(layout.placements[4][0].index, 1);
}

TEST(AssignAddresses, TakesNothingForViewsAndEmptyTensors) {
  GraphData data;
  data.tensors = {resident("x", 10), value("empty", 0), view("v", 0)};
  data.ops = {op("make_empty", {0}, {1}), op("make_v", {0}, {2})};
  data.outputs = {1, 2};
  const Graph graph(std::move(data));
  const Layout layout = assign_addresses(graph, keep_all(graph));
  EXPECT_THAT(layout.placements, ElementsAre(IsEmpty(), IsEmpty()));
  EXPECT_EQ(layout.arena_bytes, 10);
}

TEST(AssignAddressesProperty, LayoutsOfRandomPlansAreValid) {
  std::deque<Graph> graphs;
  std::deque<Plan> plans;
  std::vector<testing::PlanCase> cases;
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    const Graph& graph = graphs.emplace_back(testing::random_graph(seed, {.ops = 60}));
    Plan& plan = plans.emplace_back(
        with_in_place(graph, lower(graph, testing::random_executions(graph, seed))));
    plan.layout =
        assign_addresses(graph, plan, {.alignment = seed % 2 == 0 ? packing::kArenaAlignment : 1});
    EXPECT_GE(plan.layout->arena_bytes, plan.peak_bytes);
    cases.push_back({&graph, &plan});
  }
  EXPECT_TRUE(testing::are_valid_plans(cases));
}

}  // namespace
}  // namespace lowtide::layout
