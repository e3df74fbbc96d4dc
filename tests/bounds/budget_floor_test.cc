#include "bounds/budget_floor.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "plan/in_place.h"
#include "plan/lower.h"
#include "plan/replay.h"
#include "support/brute_force.h"
#include "support/random_graph.h"
#include "support/tiny_graphs.h"

namespace lowtide::testing {
namespace {

/// b reads a; the sum reads both. Each alone needs no more than 30, but while b is made, a is held
/// and b's op works in 25 bytes.
GraphData sum_of_two() {
  GraphData data;
  data.tensors = {resident("x", 100), value("a", 10), value("b", 10), value("c", 10)};
  data.ops = {op("a", {0}, {1}), op("b", {0}, {2}, 1, 25), op("sum", {1, 2}, {3})};
  data.outputs = {3};
  return data;
}

TEST(BudgetFloor, CountsWhatIsHeldWhileAnotherInputIsMade) {
  GraphData data = sum_of_two();
  EXPECT_EQ(structural_floor(Graph(data)).bytes, 100 + 10 + 25);
  EXPECT_EQ(bounds::budget_floor(Graph(data)), 100 + 10 + 25);  // b first
  data.ops[0].workspace_bytes = 24;
  EXPECT_EQ(structural_floor(Graph(data)).bytes, 100 + 10 + 25);
  EXPECT_EQ(bounds::budget_floor(Graph(data)), 100 + 10 + 10 + 24);  // then a, with b held
}

TEST(BudgetFloor, LetsOutputsLieOverInputsThatDie) {
  GraphData data = sum_of_two();
  data.ops[0].workspace_bytes = data.ops[1].workspace_bytes = 0;
  data.ops[2].workspace_bytes = 3;
  EXPECT_EQ(bounds::budget_floor(Graph(data)), 100 + 30 + 3);
  data.ops[2].inplace = {{0, 1}};
  EXPECT_EQ(bounds::budget_floor(Graph(data)), 100 + 20 + 3);
  data.outputs.push_back(1);
  EXPECT_EQ(bounds::budget_floor(Graph(data)), 100 + 20 + 3);  // b dies
  data.outputs.push_back(2);
  EXPECT_EQ(bounds::budget_floor(Graph(data)), 100 + 30);  // made again while the sum is held
}

/// "wide" runs between the run of "once" and its last reader, in any order.
TEST(BudgetFloor, HoldsWhatCannotBeMadeAgain) {
  GraphData data;
  data.tensors = {resident("x", 100), value("once", 40), value("wide", 50), value("thin", 1),
                  value("last", 1)};
  data.ops = {op("once", {0}, {1}), op("wide", {1}, {2}), op("thin", {2}, {3}),
              op("last", {1, 3}, {4})};
  data.outputs = {4};
  // With reruns: the inputs of "last" have 41 bytes, and each can be made again separately.
  EXPECT_EQ(bounds::budget_floor(Graph(data)), 100 + 40 + 50);
  data.ops[2].workspace_bytes = 60;
  EXPECT_EQ(bounds::budget_floor(Graph(data)), 100 + 50 + 1 + 60);
  data.ops[0].recomputable = false;
  EXPECT_EQ(bounds::budget_floor(Graph(data)), 100 + 40 + 50 + 1 + 60);
}

/// After the write, readers of the old x may not run again: "early" is held during it.
TEST(BudgetFloor, HoldsWhatAWriteLeavesBehind) {
  GraphData data;
  data.tensors = {resident("x", 100), value("early", 40), value("step", 5), value("late", 1),
                  resident("y", 0)};
  data.ops = {op("early", {0}, {1}), op("step", {1}, {2}), op("write", {0, 4, 2}, {}, 1, 60),
              op("late", {0, 1}, {3})};
  data.outputs = {3};
  data.ops[2].mutates = {1};
  EXPECT_EQ(bounds::budget_floor(Graph(data)), 100 + 5 + 60);
  data.ops[2].mutates = {0};
  EXPECT_EQ(bounds::budget_floor(Graph(data)), 100 + 40 + 5 + 60);
}

/// With views, effects, workspaces and in-place writes.
TEST(BudgetFloor, IsBelowTheSmallestOfAllSetsOfReruns) {
  TinyGraphs graphs(0);
  int raised = 0, equal = 0;
  constexpr int kGraphs = 400;
  for (int i = 0; i < kGraphs; ++i) {
    const Tiny tiny = graphs.next();
    SCOPED_TRACE(tiny.graph.name());
    const Bytes least = std::ranges::min(tiny.plans, {}, &Candidate::in_place_peak).in_place_peak;
    const Bytes floor = bounds::budget_floor(tiny.graph);
    EXPECT_LE(floor, least);
    EXPECT_GE(floor, structural_floor(tiny.graph).bytes);
    equal += floor == least;
    raised += floor > structural_floor(tiny.graph).bytes;
  }
  RecordProperty("equal", equal);
  RecordProperty("raised", raised);
  EXPECT_GT(raised, 20);
}

TEST(BudgetFloor, IsBelowThePeakOfAnySequence) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    const Graph graph = random_graph(seed, {.ops = 30});
    const Plan plan = with_in_place(graph, lower(graph, random_executions(graph, seed)));
    EXPECT_LE(bounds::budget_floor(graph, 2000), plan.peak_bytes);
  }
}

}  // namespace
}  // namespace lowtide::testing
