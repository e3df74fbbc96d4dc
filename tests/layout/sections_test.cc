#include "layout/sections.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>

#include "graph/handed_out.h"
#include "plan/in_place.h"
#include "plan/lower.h"
#include "support/check_plan.h"
#include "support/random_graph.h"

namespace lowtide::layout {
namespace {

using ::testing::AnyOf;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::op;
using testing::value;

Plan laid_out(const Graph& graph, Bytes capacity, Bytes alignment = 1) {
  Plan plan = keep_all(graph);
  plan.layout =
      assign_addresses(graph, plan, {.alignment = alignment, .capacity = capacity});
  return plan;
}

/// "long" is alive with all outputs.
Graph three_outputs(Bytes after_bytes) {
  GraphData data;
  data.tensors = {value("long", 8), value("first", 4), value("second", 2), value("last", 1)};
  data.ops = {op("make_long", {}, {0}), op("make_first", {}, {1}), op("make_second", {0}, {2}),
              op("make_last", {0}, {3})};
  data.outputs = {1, 2, 3};
  data.after_bytes = after_bytes;
  return Graph(std::move(data));
}

TEST(Sections, PutOutputsBelowTheBorderAndTheRestAbove) {
  for (Bytes after : {1, 8, 100}) {  // the last one does not fit, and the border is lowest
    const Graph graph = three_outputs(after);
    const Plan plan = laid_out(graph, 15);
    EXPECT_THAT(plan.layout->borders, ElementsAre(7));
    EXPECT_EQ(plan.layout->placements[0][0].offset, 7);
    EXPECT_EQ(plan.layout->arena_bytes, 15);
    EXPECT_TRUE(testing::is_valid_plan(graph, plan));
  }
}

TEST(Sections, HaveNoBorderWhereTheArenaLeavesRoom) {
  EXPECT_THAT(laid_out(three_outputs(1), 16).layout->borders, IsEmpty());
  EXPECT_THAT(laid_out(three_outputs(0), 15).layout->borders, IsEmpty());
}

/// Seven bytes of outputs stay.
TEST(Sections, NeedWhatIsHeldAfterwardsAndWhatIsTakenThen) {
  for (const auto& [after, needed] : {std::pair(0, 15), std::pair(8, 15), std::pair(100, 107)}) {
    const Graph graph = three_outputs(after);
    EXPECT_EQ(needed_bytes(graph, laid_out(graph, 15)), needed);
  }
  const Graph graph = three_outputs(8);
  Plan whole = keep_all(graph);
  whole.layout = assign_addresses(graph, whole, {.alignment = 1});
  EXPECT_THAT(whole.layout->borders, IsEmpty());
  EXPECT_EQ(needed_bytes(graph, whole), 15 + 8);
}

/// Five values of 4 bytes fill the arena, and then an output of 5 follows: a border at its end
/// would waste 3 of the bytes below, and a higher border fits.
TEST(Sections, HaveABorderThatSuitsWhatLiesOnEitherSide) {
  GraphData data;
  std::vector<TensorId> values;
  for (int i = 0; i < 5; ++i) {
    values.push_back(i);
    data.tensors.push_back(value("value", 4));
    data.ops.push_back(op("make", {}, {i}));
  }
  data.tensors.push_back(value("small", 1));
  data.ops.push_back(op("use", values, {5}));
  data.tensors.push_back(value("output", 5));
  data.ops.push_back(op("make_output", {5}, {6}));
  data.outputs = {6};
  data.after_bytes = 8;
  const Graph graph(std::move(data));
  const Plan plan = laid_out(graph, 21);
  EXPECT_EQ(plan.layout->arena_bytes, 21);
  EXPECT_THAT(plan.layout->borders, ElementsAre(AnyOf(8, 9, 12, 13)));
  EXPECT_TRUE(testing::is_valid_plan(graph, plan));
}

/// The highest end of the values that are alive at the end of the plan.
Bytes end_of_outputs(const Graph& graph, const Plan& plan) {
  const PlanBuffers needed = buffers_of(graph, plan);
  Bytes end = 0;
  for (std::size_t i = 0; i < needed.buffers.size(); ++i) {
    const packing::Buffer& buffer = needed.buffers[i];
    if (buffer.end < static_cast<std::int32_t>(plan.actions.size())) continue;
    for (const Placement& placement : plan.layout->placements[buffer.begin]) {
      const bool same = placement.workspace == needed.first[i].workspace &&
                        placement.index == needed.first[i].index;
      if (same) end = std::max(end, placement.offset + buffer.bytes);
    }
  }
  return end;
}

TEST(SectionsProperty, NothingLiesAcrossABorderAndOutputsLieBelow) {
  std::deque<Graph> graphs;
  std::deque<Plan> plans;
  std::vector<testing::PlanCase> cases;
  int divided = 0;
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE(seed);
    const Graph drawn = testing::random_graph(seed, {.ops = 60});
    const Bytes alignment = seed % 2 == 0 ? packing::kArenaAlignment : 1;
    Plan plan = with_in_place(drawn, lower(drawn, testing::random_executions(drawn, seed)));
    const Bytes whole = assign_addresses(drawn, plan, {.alignment = alignment}).arena_bytes;
    const Bytes capacity = (whole - drawn.resident_bytes()) * 11 / 10;
    const Graph& graph = graphs.emplace_back(
        with_after_bytes(drawn, 1 + capacity * static_cast<Bytes>(seed % 4) / 4));
    plan.layout = assign_addresses(graph, plan, {.alignment = alignment, .capacity = capacity});
    if (!plan.layout->borders.empty()) {
      ++divided;
      ASSERT_EQ(plan.layout->borders.size(), 1u);
      const Bytes border = plan.layout->borders.front();
      const Bytes outputs = align_up(end_of_outputs(graph, plan), alignment);
      EXPECT_GE(border, outputs);
      EXPECT_LE(border, std::max(outputs, capacity - graph.after_bytes()));
    }
    cases.push_back({&graph, &plans.emplace_back(std::move(plan))});
  }
  EXPECT_GT(divided, 50);
  EXPECT_TRUE(testing::are_valid_plans(cases));
}

}  // namespace
}  // namespace lowtide::layout
