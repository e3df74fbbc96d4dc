#include "plan/verify.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/boundary.h"
#include "support/corrupted_plan.h"

namespace lowtide {
namespace {

using testing::free_of;
using ::testing::HasSubstr;
using testing::op;
using testing::resident;
using testing::run;
using testing::sample;
using testing::value;
using testing::VerifyTest;
using testing::view;

TEST_F(VerifyTest, AcceptsTheGoodPlan) { EXPECT_TRUE(testing::is_valid_plan(graph, plan)); }

TEST_F(VerifyTest, BadOp) {
  plan.actions[5] = run(5);
  const auto violation = verify(graph, plan);
  ASSERT_TRUE(violation);
  EXPECT_EQ(violation->rule, Rule::bad_index);
  EXPECT_EQ(violation->message, "there is no op 5; the graph has 5");
}

TEST_F(VerifyTest, BadTensor) {
  plan.actions[4] = free_of(-1);
  ASSERT_TRUE(verify(graph, plan));
  EXPECT_EQ(verify(graph, plan)->rule, Rule::bad_index);
}

TEST_F(VerifyTest, BadLayoutLength) {
  plan.layout->placements.pop_back();
  ASSERT_TRUE(verify(graph, plan));
  EXPECT_EQ(verify(graph, plan)->rule, Rule::bad_index);
}

TEST_F(VerifyTest, InputNotLive) {
  std::swap(plan.actions[3], plan.actions[4]);
  expect(Rule::input_not_live, 4, "op 3 (\"make_c\") needs tensor 1 (\"a\"), which is not live");
}

TEST_F(VerifyTest, ViewsDieWithTheirStorage) {
  plan.actions = {run(0), run(1), free_of(1), run(0), run(2), run(3), free_of(1), run(4)};
  plan.layout.reset();
  expect(Rule::input_not_live, 4, "needs tensor 2 (\"v\")");
}

TEST_F(VerifyTest, OutputAlreadyLive) {
  plan.actions[1] = run(0);
  expect(Rule::output_already_live, 1, "op 0 (\"make_a\") runs while its output tensor 1");
}

TEST_F(VerifyTest, RunsTwice) {
  plan.actions.push_back(run(4));
  plan.layout.reset();
  expect(Rule::runs_twice, 6, "op 4 (\"update\") may run only once");
}

/// A write and a draw, on each side of the boundary.
TEST(Verify, EffectsStayOnTheirSideOfTheBoundary) {
  GraphData data;
  data.name = "two halves";
  data.tensors = {resident("x", 64), resident("y", 64), value("a", 8), value("b", 8)};
  data.ops = {op("draw", {}, {2}), op("write", {0}, {}), op("boundary", {}, {}),
              op("draw again", {}, {3}), op("write again", {1}, {})};
  data.ops[0].random = data.ops[3].random = true;
  data.ops[1].mutates = data.ops[4].mutates = {0};
  data.ops[1].recomputable = data.ops[2].recomputable = data.ops[4].recomputable = false;
  data.ops[2].type = kBoundary;
  data.outputs = {2, 3};
  const Graph graph(std::move(data));
  const auto broken = [&](std::vector<Action> actions) {
    Plan plan;
    plan.actions = std::move(actions);
    plan.cost = 5;
    plan.peak_bytes = 144;
    const testing::PlanCase one{&graph, &plan};
    const auto violation = verify(graph, plan);
    EXPECT_EQ(testing::python_verdicts({&one, 1}).front().valid, !violation);
    return violation ? std::string(name(violation->rule)) : "";
  };
  EXPECT_EQ(broken({run(1), run(0), run(2), run(4), run(3)}), "");
  EXPECT_EQ(broken({run(1), run(2), run(0), run(4), run(3)}), "effect_crosses");
  EXPECT_EQ(broken({run(0), run(2), run(1), run(4), run(3)}), "effect_crosses");
  EXPECT_EQ(broken({run(0), run(1), run(3), run(2), run(4)}), "effect_crosses");
  EXPECT_EQ(broken({run(0), run(1), run(4), run(2), run(3)}), "effect_crosses");
}

TEST_F(VerifyTest, StaleInput) {
  plan.actions.push_back(run(0));
  plan.layout.reset();
  expect(Rule::stale_input, 6, "reads tensor 0 (\"x\") after op 4 (\"update\") overwrote it");
}

TEST_F(VerifyTest, InputThatIsNotYetWritten) {
  GraphData data = sample();
  data.tensors.push_back(value("late", 8));
  data.ops.push_back(op("read_x", {0}, {5}));
  graph = Graph(std::move(data));
  plan.actions.insert(plan.actions.begin(), run(5));
  plan.layout.reset();
  expect(Rule::stale_input, 0, "before op 4 (\"update\") wrote it");
}

TEST_F(VerifyTest, AViewMayBeMadeAfterAnOverwrite) {
  GraphData data = sample();
  data.tensors.push_back(view("x_view", 0));
  data.ops.insert(data.ops.begin(), op("view_x", {0}, {5}, 0));
  graph = Graph(std::move(data));
  plan.layout.reset();
  for (Action& action : plan.actions) action.index += action.verb == Verb::run;
  plan.actions.push_back(run(0));
  EXPECT_TRUE(testing::is_valid_plan(graph, plan));
}

TEST_F(VerifyTest, InPlaceWithoutPermission) {
  plan.actions[2].in_place = {0};
  expect(Rule::bad_in_place, 2, "may not write its output 0 in place");
}

TEST_F(VerifyTest, InPlaceOverAResident) {
  GraphData data = sample();
  data.ops[0].inplace = {{0, 0}};
  graph = Graph(std::move(data));
  plan.actions[0].in_place = {0};
  expect(Rule::bad_in_place, 0, "is resident");
}

TEST_F(VerifyTest, InPlaceOverSomethingSmaller) {
  GraphData data = sample();
  data.ops[3].inplace = {{0, 0}};
  graph = Graph(std::move(data));
  expect(Rule::bad_in_place, 3, "which is smaller");
}

TEST_F(VerifyTest, InPlaceTwice) {
  plan.actions[3].in_place = {0, 0};
  expect(Rule::bad_in_place, 3, "written already");
}

TEST_F(VerifyTest, FreeOfWhatIsNotLive) {
  plan.actions[4] = free_of(3);
  expect(Rule::not_live, 4, "tensor 3 (\"b\") is freed, but it is not live");
}

TEST_F(VerifyTest, FreeOfAResident) {
  plan.actions[4] = free_of(0);
  expect(Rule::not_live, 4, "it is resident");
}

TEST_F(VerifyTest, OffloadOfWhatIsNotLive) {
  plan.actions[4] = {Verb::offload, 3, {}};
  expect(Rule::not_live, 4, "offloaded");
}

TEST_F(VerifyTest, WaitForNoCopy) {
  plan.actions[4] = {Verb::wait, 1, {}};
  expect(Rule::bad_wait, 4, "no copy of tensor 1 (\"a\") is under way");
}

TEST_F(VerifyTest, FreedWhileACopyIsUnderWay) {
  plan.actions.insert(plan.actions.begin() + 4, {Verb::offload, 1, {}});
  plan.layout->placements.emplace(plan.layout->placements.begin() + 4);
  expect(Rule::copy_under_way, 5, "is freed while a copy of it is under way");
}

TEST_F(VerifyTest, ViewOfWhatIsNotLive) {
  // An op that makes a view of a storage that it writes another output over.
  GraphData data = sample();
  const TensorId last = data.outputs.front();
  data.tensors.push_back(view("other", last));
  data.tensors.push_back(value("over", data.tensors[last].bytes));
  data.ops.push_back(op("make_other", {last}, {5, 6}));
  data.ops.back().inplace = {{1, 0}};
  graph = Graph(std::move(data));
  plan.actions.push_back(run(5, {1}));
  plan.layout.reset();
  expect(Rule::not_live, 6, "makes tensor 5 (\"other\"), a view of");
}

TEST_F(VerifyTest, PrefetchOfWhatIsLive) {
  plan.actions[4] = {Verb::prefetch, 1, {}};
  expect(Rule::bad_prefetch, 4, "is live or was never offloaded");
}

TEST_F(VerifyTest, MissingEffect) {
  plan.actions.pop_back();
  plan.layout->placements.pop_back();
  expect(Rule::missing_effect, kNone, "op 4 (\"update\") has an effect and never runs");
}

TEST_F(VerifyTest, OutputNotLive) {
  plan.actions.push_back(free_of(4));
  plan.layout->placements.emplace_back();
  expect(Rule::output_not_live, kNone, "output tensor 4 (\"c\") is not live at the end");
}

TEST_F(VerifyTest, OverBudget) {
  plan.budget_bytes = plan.peak_bytes - 1;
  expect(Rule::over_budget, kNone, "the peak of 288 bytes exceeds the budget of 287");
}

TEST_F(VerifyTest, TheBudgetGivenComesBeforeThePlansOwn) {
  EXPECT_FALSE(verify(graph, plan, plan.layout->arena_bytes));
  EXPECT_TRUE(verify(graph, plan, plan.peak_bytes - 1));
}

TEST_F(VerifyTest, NoAddressOfAStorage) {
  plan.layout->placements[2].erase(plan.layout->placements[2].begin());
  expect(Rule::no_address, 2, "tensor 3 (\"b\") has no address");
}

TEST_F(VerifyTest, NoAddressOfAWorkspace) {
  plan.layout->placements[2].pop_back();
  expect(Rule::no_address, 2, "the workspace of op 2 (\"make_b\") has no address");
}

TEST_F(VerifyTest, NegativeAddress) {
  address(2).offset = -64;
  expect(Rule::negative_address, 2, "tensor 3 (\"b\") has the address -64");
}

TEST_F(VerifyTest, AddressBeyondAllMemory) {
  for (Bytes below : {1, 128, 128 + 63}) {  // alone, or in addition to the 64 bytes of the resident
    SCOPED_TRACE(below);
    address(2).offset = std::numeric_limits<Bytes>::max() - below;
    ASSERT_TRUE(verify(graph, plan));
    EXPECT_EQ(verify(graph, plan)->rule, Rule::negative_address);
  }
}

TEST_F(VerifyTest, OverlapOfStorages) {
  address(2).offset = address(0).offset;
  expect(Rule::overlap, 2, "overlaps tensor 1 (\"a\")");
}

TEST_F(VerifyTest, OverlapWithAWorkspace) {
  address(2, 1).offset = address(2, 0).offset + 100;
  expect(Rule::overlap, 2, "the workspace of op 2 (\"make_b\") at");
}

TEST_F(VerifyTest, OverlapWithAnInPlaceOutput) {
  GraphData data = sample();
  data.tensors.push_back(value("late", 8));
  data.ops.push_back(op("make_late", {4}, {5}));
  graph = Graph(std::move(data));
  plan.actions.push_back(run(5));
  plan.layout->placements.push_back({{false, 5, address(2).offset}});  // b's, where c now lies
  expect(Rule::overlap, 6, "overlaps tensor 4 (\"c\")");
}

TEST_F(VerifyTest, AcrossABorder) {
  plan.layout->borders = {address(2).offset, address(2).offset + 128};
  EXPECT_FALSE(verify(graph, plan));
  plan.layout->borders[1] -= 1;
  expect(Rule::over_border, 2, "lies across the border at");
  plan.layout->borders = {64, 0};
  expect(Rule::over_border, kNone, "not in ascending order");
}

TEST_F(VerifyTest, ArenaOverBudget) {
  address(2).offset = 640;
  plan.layout->arena_bytes = 64 + 640 + 128;
  plan.budget_bytes = 800;
  expect(Rule::arena_over_budget, kNone, "the arena of 832 bytes exceeds the budget of 800");
}

TEST_F(VerifyTest, WrongClaims) {
  plan.cost = 5;
  expect(Rule::wrong_claim, kNone, "says that it costs 5, but it costs 4");
  plan = good_plan(graph);
  plan.peak_bytes -= 1;
  expect(Rule::wrong_claim, kNone, "its peak is 287 bytes, but it is 288");
  plan = good_plan(graph);
  plan.layout->arena_bytes += 1;
  expect(Rule::wrong_claim, kNone, "arena");
}

TEST_F(VerifyTest, LowerBoundAboveTheCost) {
  plan.lower_bound = 4.5;
  const auto violation = verify(graph, plan);
  ASSERT_TRUE(violation);
  EXPECT_EQ(violation->rule, Rule::wrong_claim);
  EXPECT_EQ(violation->message, "the plan's lower bound of 4.5 is above its cost of 4");
  plan.lower_bound = 4;
  EXPECT_FALSE(verify(graph, plan));
}

}  // namespace
}  // namespace lowtide
