#include "plan/lower.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <numeric>
#include <stdexcept>

#include "plan/in_place.h"
#include "plan/replay.h"
#include "plan/verify.h"
#include "support/check_plan.h"
#include "support/random_graph.h"
#include "support/same_graph.h"

namespace lowtide {
namespace {

using testing::chain_graph;
using testing::free_of;
using testing::op;
using testing::random_executions;
using testing::random_graph;
using testing::resident;
using testing::run;
using testing::value;
using testing::view;
using ::testing::ElementsAre;

/// x (resident) -> a -> b -> c, where the last op also reads a; c is the output.
Graph three_ops() {
  GraphData data;
  data.tensors = {resident("x", 8), value("a", 16), value("b", 32), value("c", 64)};
  data.ops = {op("make_a", {0}, {1}), op("make_b", {1}, {2}), op("make_c", {1, 2}, {3})};
  data.outputs = {3};
  return Graph(std::move(data));
}

TEST(KeepAll, RunsEachOpOnceAndFreesAfterTheLastUse) {
  EXPECT_THAT(keep_all(three_ops()).actions,
              ElementsAre(run(0), run(1), run(2), free_of(1), free_of(2)));
}

TEST(KeepAll, FreesAtOnceWhatNothingReads) {
  GraphData data;
  data.tensors = {resident("x", 8), value("a", 16), value("unused", 32)};
  data.ops = {op("both", {0}, {1, 2})};
  data.outputs = {1};
  EXPECT_THAT(keep_all(Graph(std::move(data))).actions, ElementsAre(run(0), free_of(2)));
}

TEST(Lower, BindsAUseToTheLatestEarlierExecution) {
  // The first a serves make_b alone, the second make_c.
  EXPECT_THAT(lower(three_ops(), std::vector<OpId>{0, 1, 0, 2}).actions,
              ElementsAre(run(0), run(1), free_of(1), run(0), run(2), free_of(2), free_of(1)));
}

TEST(Lower, KeepsOnlyTheLastExecutionOfAnOutput) {
  GraphData data;
  data.tensors = {resident("x", 8), value("a", 16), value("b", 32)};
  data.ops = {op("make_a", {0}, {1}), op("make_b", {1}, {2})};
  data.outputs = {1, 2};
  const Graph graph(std::move(data));
  EXPECT_THAT(lower(graph, std::vector<OpId>{0, 1, 0}).actions,
              ElementsAre(run(0), run(1), free_of(1), run(0)));
}

TEST(Lower, ThrowsWhenAnInputWasNeverMade) {
  EXPECT_THROW(lower(three_ops(), std::vector<OpId>{0, 2}), std::logic_error);
  EXPECT_THROW(lower(three_ops(), std::vector<OpId>{0, 1}), std::logic_error);  // no output
}

TEST(Lower, ThrowsWhenAnOpThatMayRunOnceRunsAgain) {
  GraphData data = three_ops().data();
  data.ops[0].recomputable = false;
  EXPECT_THROW(lower(Graph(data), std::vector<OpId>{0, 1, 0, 2}), std::logic_error);
}

/// a -> its view v -> a view w of that; two readers of w, the second after a filler.
Graph viewed() {
  GraphData data;
  data.tensors = {resident("x", 8), value("a", 16), view("v", 1),
                  view("w", 1),     value("b", 4),  value("c", 4)};
  data.ops = {op("make_a", {0}, {1}), op("make_v", {1}, {2}), op("make_w", {2}, {3}),
              op("make_b", {3}, {4}), op("make_c", {3, 4}, {5})};
  data.outputs = {5};
  return Graph(std::move(data));
}

TEST(Lower, MakesMissingViewsRightBeforeTheirFirstUse) {
  EXPECT_THAT(lower(viewed(), std::vector<OpId>{0, 3, 4}).actions,
              ElementsAre(run(0), run(1), run(2), run(3), run(4), free_of(1), free_of(4)));
}

TEST(Lower, RemakesViewsOfAStorageThatWasMadeAgain) {
  EXPECT_THAT(lower(viewed(), std::vector<OpId>{0, 1, 2, 3, 0, 4}).actions,
              ElementsAre(run(0), run(1), run(2), run(3), free_of(1), run(0), run(1), run(2),
                          run(4), free_of(4), free_of(1)));
}

TEST(Lower, SkipsAViewOpWhoseViewsAreLive) {
  EXPECT_EQ(lower(viewed(), std::vector<OpId>{0, 1, 1, 2, 3, 2, 4}).actions,
            keep_all(viewed()).actions);
}

TEST(Lower, RunsAViewOfAResidentOnce) {
  GraphData data;
  data.tensors = {resident("x", 8), view("v", 0), value("a", 16), value("b", 16)};
  data.ops = {op("make_v", {0}, {1}), op("make_a", {1}, {2}), op("make_b", {1, 2}, {3})};
  data.outputs = {3};
  EXPECT_THAT(lower(Graph(std::move(data)), std::vector<OpId>{1, 1, 2}).actions,
              ElementsAre(run(0), run(1), free_of(2), run(1), run(2), free_of(2)));
}

TEST(Lower, MakesAMissingViewThatIsAnOutput) {
  GraphData data;
  data.tensors = {resident("x", 8), value("a", 16), view("v", 1)};
  data.ops = {op("make_a", {0}, {1}), op("make_v", {1}, {2})};
  data.outputs = {2};
  EXPECT_THAT(lower(Graph(std::move(data)), std::vector<OpId>{0}).actions,
              ElementsAre(run(0), run(1)));
}

TEST(Lower, GoesThroughLongChainsOfViews) {
  constexpr int kViews = 50'000;
  GraphData data;
  data.tensors = {resident("x", 8), value("a", 16)};
  data.ops = {op("make_a", {0}, {1})};
  for (int i = 0; i < kViews; ++i) {
    data.tensors.push_back(view("v", 1));
    data.ops.push_back(op("make_v", {i + 1}, {i + 2}));
  }
  data.outputs = {kViews + 1};
  EXPECT_EQ(lower(Graph(std::move(data)), std::vector<OpId>{0}).actions.size(), kViews + 1u);
}

// ---- Random graphs -----------------------------------------------------------------------------

/// Every free follows a run that reads or makes its storage: no free is late.
bool frees_follow_uses(const Graph& graph, const Plan& plan) {
  OpId last_run = kNone;
  for (const Action& action : plan.actions) {
    if (action.verb == Verb::run) last_run = action.index;
    if (action.verb != Verb::free) continue;
    const Op& used_by = graph.op(last_run);
    const auto uses = [&](TensorId id) { return graph.storage(id) == action.index; };
    if (std::ranges::none_of(used_by.inputs, uses) && std::ranges::none_of(used_by.outputs, uses)) {
      return false;
    }
  }
  return true;
}

/// Executions of ops that are no view ops: the decisions of a strategy.
std::vector<OpId> decided(const Graph& graph, std::span<const OpId> executions) {
  std::vector<OpId> result;
  std::ranges::copy_if(executions, std::back_inserter(result),
                       [&](OpId id) { return !graph.is_view_op(id); });
  return result;
}

std::vector<OpId> runs(const Plan& plan) {
  std::vector<OpId> result;
  for (const Action& action : plan.actions) {
    if (action.verb == Verb::run) result.push_back(action.index);
  }
  return result;
}

TEST(LowerProperty, PlansAreValidAndFreeAsEarlyAsTheyCan) {
  std::deque<Graph> graphs;
  std::deque<Plan> plans;
  std::vector<testing::PlanCase> cases;
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    const Graph& graph = graphs.emplace_back(random_graph(seed));
    const std::vector<OpId> executions = random_executions(graph, seed);
    const Plan& plan = plans.emplace_back(lower(graph, executions));
    EXPECT_TRUE(frees_follow_uses(graph, plan));
    EXPECT_EQ(decided(graph, runs(plan)), decided(graph, executions));
    cases.push_back({&graph, &plan});
    cases.push_back({&graph, &plans.emplace_back(keep_all(graph))});
  }
  EXPECT_TRUE(testing::are_valid_plans(cases));
}

TEST(LowerProperty, PlansDoNotDependOnTheNumbersOfTensors) {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE(seed);
    const Graph graph = random_graph(seed), other = testing::relabelled(graph, seed);
    const std::vector<OpId> executions = random_executions(graph, seed);
    EXPECT_EQ(replay(other, lower(other, executions)).memory,
              replay(graph, lower(graph, executions)).memory);
  }
}

TEST(LowerProperty, InPlaceWritesKeepCostAndNeverRaiseThePeak) {
  std::deque<Graph> graphs;
  std::deque<Plan> plans;
  std::vector<testing::PlanCase> cases;
  std::size_t written = 0, lower_peaks = 0;
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    const Graph& graph = graphs.emplace_back(random_graph(seed));
    const Plan before = lower(graph, random_executions(graph, seed));
    const Plan& after = plans.emplace_back(with_in_place(graph, before));
    EXPECT_EQ(after.cost, before.cost);
    EXPECT_LE(after.peak_bytes, before.peak_bytes);
    EXPECT_GE(after.peak_bytes, structural_floor(graph).bytes);
    EXPECT_EQ(with_in_place(graph, after).actions, after.actions);
    for (const Action& action : after.actions) written += action.in_place.size();
    lower_peaks += after.peak_bytes < before.peak_bytes;
    cases.push_back({&graph, &after});
  }
  EXPECT_TRUE(testing::are_valid_plans(cases));
  EXPECT_GT(written, 300u);
  EXPECT_GT(lower_peaks, 20u);
}

// ---- In-place writes ---------------------------------------------------------------------------

/// x (resident) -> a -> b -> c, all of 64 bytes, each op allowed to write over its input.
GraphData pointwise_chain() {
  GraphData data;
  data.tensors = {resident("x", 64), value("a", 64), value("b", 64), value("c", 64)};
  data.ops = {op("make_a", {0}, {1}), op("make_b", {1}, {2}), op("make_c", {2}, {3})};
  for (Op& pointwise : data.ops) pointwise.inplace = {{0, 0}};
  data.outputs = {3};
  return data;
}

Plan in_place_keep_all(GraphData data) {
  const Graph graph(std::move(data));
  const Plan plan = with_in_place(graph, keep_all(graph));
  EXPECT_TRUE(testing::is_valid_plan(graph, plan));
  return plan;
}

TEST(InPlace, ChainsWriteOneStorageThroughout) {
  const Plan plan = in_place_keep_all(pointwise_chain());
  EXPECT_THAT(plan.actions, ElementsAre(run(0), run(1, {0}), run(2, {0})));
  EXPECT_EQ(plan.peak_bytes, 128);
}

TEST(InPlace, LeavesAnInputThatIsReadLater) {
  GraphData data = pointwise_chain();
  data.ops[2].inputs = {2, 1};
  EXPECT_THAT(in_place_keep_all(std::move(data)).actions,
              ElementsAre(run(0), run(1), run(2, {0}), free_of(1)));
}

TEST(InPlace, LeavesAnOutputOfTheGraph) {
  GraphData data = pointwise_chain();
  data.outputs = {2, 3};
  EXPECT_THAT(in_place_keep_all(std::move(data)).actions, ElementsAre(run(0), run(1, {0}), run(2)));
}

TEST(InPlace, NeedsTheSameBytes) {
  GraphData data = pointwise_chain();
  data.tensors[2].bytes = 32;
  EXPECT_THAT(in_place_keep_all(std::move(data)).actions,
              ElementsAre(run(0), run(1), free_of(1), run(2), free_of(2)));
}

TEST(InPlace, RefusesAStorageThatTheOpReadsTwice) {
  GraphData data = pointwise_chain();
  data.ops[1].inputs = {1, 1};
  EXPECT_THAT(in_place_keep_all(std::move(data)).actions,
              ElementsAre(run(0), run(1), free_of(1), run(2, {0})));
}

/// make_b reads a through a view.
GraphData through_view(Shape shape, Shape strides) {
  GraphData data = pointwise_chain();
  data.tensors.push_back(view("v", 1));
  data.tensors[4].dtype = DType::f32;
  data.tensors[4].shape = std::move(shape);
  data.tensors[4].strides = std::move(strides);
  data.ops.insert(data.ops.begin() + 1, op("make_v", {1}, {4}));
  data.ops[2].inputs = {4};
  return data;
}

TEST(InPlace, WritesThroughAViewThatIsTheWholeStorageInOrder) {
  EXPECT_THAT(in_place_keep_all(through_view({4, 4}, {})).actions,
              ElementsAre(run(0), run(1), run(2, {0}), run(3, {0})));
}

TEST(InPlace, RefusesViewsOfAPartOrInAnotherOrder) {
  const auto untouched = ElementsAre(run(0), run(1), run(2), free_of(1), run(3, {0}));
  EXPECT_THAT(in_place_keep_all(through_view({2, 4}, {})).actions, untouched);
  EXPECT_THAT(in_place_keep_all(through_view({4, 4}, {1, 4})).actions, untouched);
  const std::int64_t large = std::int64_t{1} << 40;  // its square exceeds 64 bits
  EXPECT_THAT(in_place_keep_all(through_view({large, large, 0}, {})).actions, untouched);
}

TEST(InPlace, GivesOneInputToOneOutput) {
  GraphData data = pointwise_chain();
  data.tensors.push_back(value("d", 64));
  data.ops[1].outputs = {2, 4};
  data.ops[1].inplace = {{0, 0}, {1, 0}};
  data.outputs = {3, 4};
  EXPECT_THAT(in_place_keep_all(std::move(data)).actions,
              ElementsAre(run(0), run(1, {0}), run(2, {0})));
}

}  // namespace
}  // namespace lowtide
