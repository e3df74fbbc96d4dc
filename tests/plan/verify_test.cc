#include "plan/verify.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/boundary.h"
#include "layout/layout.h"
#include "support/check_plan.h"
#include "support/random_graph.h"

namespace lowtide {
namespace {

using testing::free_of;
using ::testing::HasSubstr;
using testing::op;
using testing::resident;
using testing::run;
using testing::value;
using testing::view;

/// x (resident) -> a -> b -> c with a view v of a, an in-place permission and an update of x.
///
///   0 make_a: x -> a     1 make_v: a -> v     2 make_b: v -> b (workspace)
///   3 make_c: a, b -> c, which may be written over b      4 update: x, c, overwrites x
GraphData sample() {
  GraphData data;
  data.name = "sample";
  data.tensors = {resident("x", 64), value("a", 64), view("v", 1), value("b", 128),
                  value("c", 128)};
  data.ops = {op("make_a", {0}, {1}), op("make_v", {1}, {2}, 0), op("make_b", {2}, {3}, 1, 32),
              op("make_c", {1, 3}, {4}), op("update", {0, 4}, {})};
  data.ops[3].inplace = {{0, 1}};
  data.ops[4].mutates = {0};
  data.ops[4].recomputable = false;
  data.outputs = {4};
  return data;
}

/// Each test corrupts this good plan in one way.
struct VerifyTest : ::testing::Test {
  VerifyTest() { EXPECT_FALSE(verify(graph, plan)); }

  /// 0 run make_a, 1 run make_v, 2 run make_b, 3 run make_c over b, 4 free a, 5 run update
  static Plan good_plan(const Graph& graph) {
    Plan plan;
    plan.graph = "sample";
    plan.actions = {run(0), run(1), run(2), run(3, {0}), free_of(1), run(4)};
    plan.cost = 4;
    plan.peak_bytes = 64 + 64 + 128 + 32;
    plan.layout = layout::assign_addresses(graph, plan);
    return plan;
  }

  void expect(Rule rule, std::int32_t action, const std::string& text) {
    const auto violation = verify(graph, plan);
    ASSERT_TRUE(violation) << "the verifier accepts the corrupted plan";
    EXPECT_EQ(name(violation->rule), name(rule));
    EXPECT_EQ(violation->action, action);
    EXPECT_THAT(violation->message, HasSubstr(text));
    const testing::PlanCase one{&graph, &plan};
    EXPECT_FALSE(testing::python_verdicts({&one, 1}).front().valid);
  }

  Placement& address(std::size_t action, std::size_t i = 0) {
    return plan.layout->placements[action][i];
  }

  Graph graph{sample()};
  Plan plan = good_plan(graph);
};

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

/// The good plan, with a in slower memory for a while.
struct VerifyMoving : VerifyTest {
  VerifyMoving() {
    plan.actions = {run(0),
                    run(1),
                    run(2),
                    {Verb::offload, 1, {}},
                    {Verb::wait, 1, {}},
                    free_of(1),
                    {Verb::prefetch, 1, {}},
                    {Verb::wait, 1, {}},
                    run(3, {0}),
                    free_of(1),
                    run(4)};
    plan.slower = {
        .lanes = {.out = {1, 0.5}, .in = {2, 0.25}}, .copies = {{1, 4096}}, .bytes = 4096 + 64};
    plan.cost = 4 + (1 + 32) + (2 + 16);
    plan.layout = layout::assign_addresses(graph, plan);
    EXPECT_TRUE(testing::is_valid_plan(graph, plan));
  }
};

TEST_F(VerifyMoving, ReadBeforeItArrived) {
  std::swap(plan.actions[7], plan.actions[8]);
  expect(Rule::copy_under_way, 7, "whose copy has not arrived");
}

TEST_F(VerifyMoving, CopiedTwiceAtATime) {
  plan.actions.insert(plan.actions.begin() + 3, plan.actions[3]);
  plan.layout->placements.emplace(plan.layout->placements.begin() + 3);
  expect(Rule::copy_under_way, 4, "is copied while a copy of it is under way");
}

TEST_F(VerifyMoving, UnderWayAtTheEnd) {
  plan.actions.push_back({Verb::offload, 4, {}});
  plan.layout->placements.emplace_back();
  plan.slower->copies.push_back({4, 0});
  expect(Rule::copy_under_way, kNone, "still under way at the end");
}

TEST_F(VerifyMoving, CopyWithoutAddress) {
  plan.slower->copies.clear();
  expect(Rule::no_address, 3, "has no address in slower memory");
}

TEST_F(VerifyMoving, CopiesOverlap) {
  plan.actions.insert(plan.actions.begin() + 4, {{Verb::offload, 3, {}}, {Verb::wait, 3, {}}});
  plan.layout->placements.insert(plan.layout->placements.begin() + 4, 2, {});
  plan.slower->copies.push_back({3, 4096 - 64});
  expect(Rule::overlap, 4, "the copy of tensor 3");
}

TEST_F(VerifyMoving, ClaimsOfTimeAndSlowerMemory) {
  plan.slower->lanes.in.latency = 3;
  expect(Rule::wrong_claim, kNone, "but it costs");
  plan.slower->lanes.in.latency = 2;
  plan.slower->bytes = 64;
  expect(Rule::wrong_claim, kNone, "but it takes 4160");
}

/// The sample's plan, with x in slower memory when the step begins and when it ends.
struct VerifyResident : VerifyTest {
  VerifyResident() {
    plan.actions = {{Verb::prefetch, 0, {}},
                    {Verb::wait, 0, {}},
                    run(0),
                    free_of(0),
                    run(1),
                    run(2),
                    run(3, {0}),
                    free_of(1),
                    {Verb::prefetch, 0, {}},
                    {Verb::wait, 0, {}},
                    run(4),
                    {Verb::offload, 0, {}},
                    {Verb::wait, 0, {}},
                    free_of(0)};
    plan.slower = {.lanes = {.out = {1, 0.5}, .in = {2, 0.25}},
                   .copies = {{0, 4096}},
                   .bytes = 4096 + 64,
                   .residents = {0}};
    plan.cost = 4 + 2 * (2 + 16) + (1 + 32);
    plan.peak_bytes = 64 + 128 + 32;
    plan.layout = layout::assign_addresses(graph, plan);
    EXPECT_TRUE(testing::is_valid_plan(graph, plan));
  }

  void erase(std::size_t action) {
    const auto at = static_cast<std::ptrdiff_t>(action);
    plan.actions.erase(plan.actions.begin() + at);
    plan.layout->placements.erase(plan.layout->placements.begin() + at);
  }
};

TEST_F(VerifyResident, IsReadBeforeItIsThere) {
  plan.actions[0] = {Verb::prefetch, 1, {}};
  expect(Rule::bad_prefetch, 0, "tensor 1 (\"a\") is live or was never offloaded");
  plan.actions[0] = run(0);
  expect(Rule::input_not_live, 0, "needs tensor 0 (\"x\"), which is not live");
}

TEST_F(VerifyResident, IsReadBeforeItArrived) {
  std::swap(plan.actions[1], plan.actions[2]);
  expect(Rule::copy_under_way, 1, "whose copy has not arrived");
}

TEST_F(VerifyResident, IsFreedWithBytesThatAreInNoCopy) {
  erase(11);
  erase(11);
  expect(Rule::old_copy, 11, "tensor 0 (\"x\") is freed, and what was written to it is in no copy");
}

TEST_F(VerifyResident, IsCopiedBeforeItIsWritten) {
  std::swap(plan.actions[10], plan.actions[11]);
  expect(Rule::copy_under_way, 11, "op 4 (\"update\") writes tensor 0");
  std::swap(plan.actions[11], plan.actions[12]);
  expect(Rule::old_copy, 13, "in no copy");
}

TEST_F(VerifyResident, IsFreedWhileItIsCopied) {
  erase(12);
  expect(Rule::copy_under_way, 12, "is freed while a copy of it is under way");
}

TEST_F(VerifyResident, IsInMemoryAtTheEnd) {
  erase(13);
  expect(Rule::not_away, kNone, "is in memory at the end");
}

TEST_F(VerifyResident, IsNoResidentOrListedTwice) {
  plan.slower->residents = {0, 0};
  expect(Rule::bad_resident, kNone, "tensor 0 should lie in slower memory");
  plan.slower->residents = {1};
  expect(Rule::bad_resident, kNone, "tensor 1 should lie in slower memory");
  plan.slower->residents = {};
  expect(Rule::bad_prefetch, 0, "tensor 0 (\"x\") is live");
}

TEST_F(VerifyResident, HasNoPlaceInSlowerMemory) {
  plan.slower->copies.clear();
  expect(Rule::no_address, kNone, "tensor 0 (\"x\") is offloaded and has no address");
}

TEST_F(VerifyResident, KeepsItsPlaceInSlowerMemoryForTheWholeStep) {
  const std::vector<Action> moves{{Verb::offload, 4, {}}, {Verb::wait, 4, {}}};
  plan.actions.insert(plan.actions.end(), moves.begin(), moves.end());
  plan.layout->placements.resize(plan.actions.size());
  plan.slower->copies.push_back({4, 4096});
  expect(Rule::overlap, 14, "the copy of tensor 4");
}

TEST_F(VerifyResident, IsNeverWrittenOver) {
  graph = [] {
    GraphData data = sample();
    data.tensors[0].bytes = 128;
    data.ops[2].inputs = {2, 0};
    data.ops[2].inplace = {{0, 1}};
    return Graph(std::move(data));
  }();
  plan.actions = {{Verb::prefetch, 0, {}}, {Verb::wait, 0, {}}, run(0), run(1), run(2, {0})};
  plan.layout.reset();
  expect(Rule::bad_in_place, 4, "which is resident");
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
