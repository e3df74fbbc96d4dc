#include "plan/replay.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <filesystem>
#include <set>

#include "base/error.h"
#include "graph/io.h"
#include "plan/in_place.h"
#include "plan/lower.h"
#include "support/check_plan.h"
#include "support/random_graph.h"

namespace lowtide {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::op;
using testing::random_executions;
using testing::random_graph;
using testing::resident;
using testing::value;
using testing::view;

/// x (10, resident) -> a (100) -> b (30); the second op has 7 bytes of workspace.
GraphData two_ops() {
  GraphData data;
  data.tensors = {resident("x", 10), value("a", 100), value("b", 30)};
  data.ops = {op("make_a", {0}, {1}, 2), op("make_b", {1}, {2}, 3, 7)};
  data.outputs = {2};
  return data;
}

TEST(Replay, CountsResidentsValuesAndWorkspace) {
  const Graph graph(two_ops());
  const Replay result = replay(graph, keep_all(graph));
  EXPECT_EQ(result.cost, 5);
  EXPECT_THAT(result.memory, ElementsAre(110, 147, 40));
  EXPECT_EQ(result.peak_bytes, 147);
  EXPECT_EQ(result.peak_action, 1);
  EXPECT_EQ(result.workspace_at_peak, 7);
  EXPECT_THAT(result.live_at_peak, ElementsAre(1, 2));
}

TEST(Replay, AnInPlaceOutputTakesTheBytesOfItsInput) {
  GraphData data = two_ops();
  data.ops[1].inplace = {{0, 0}};
  const Graph graph(std::move(data));
  Plan plan;
  plan.actions = {{Verb::run, 0, {}}, {Verb::run, 1, {0}}};
  const Replay result = replay(graph, plan);
  EXPECT_THAT(result.memory, ElementsAre(110, 47));
  EXPECT_THAT(result.live_at_peak, ElementsAre(1));
}

Plan moving_a() {
  Plan plan;
  plan.actions = {{Verb::run, 0, {}},  {Verb::offload, 1, {}},  {Verb::wait, 1, {}},
                  {Verb::free, 1, {}}, {Verb::prefetch, 1, {}}, {Verb::wait, 1, {}},
                  {Verb::run, 1, {}}};
  return plan;
}

TEST(Replay, ACopyTakesTheMemoryOfItsStorageFromItsBeginToItsEnd) {
  const Replay result = replay(Graph(two_ops()), moving_a());
  EXPECT_THAT(result.memory, ElementsAre(110, 110, 110, 10, 110, 110, 147));
  EXPECT_EQ(result.cost, 5) << "without lanes, copies take no time";
}

TEST(Replay, WaitsTakeTheTimeThatNothingHides) {
  Plan plan = moving_a();
  plan.slower.emplace().lanes = {.out = {.latency = 1, .per_byte = 0.01},
                                 .in = {.latency = 0.5, .per_byte = 0.02}};
  EXPECT_DOUBLE_EQ(replay(Graph(two_ops()), plan).cost, 2 + (1 + 1) + (0.5 + 2) + 3);
  // An op that runs meanwhile hides the copy.
  GraphData data = two_ops();
  data.tensors.push_back(value("c", 5));
  data.ops.push_back(op("make_c", {0}, {3}, 10));
  plan.actions = {{Verb::run, 0, {}},
                  {Verb::offload, 1, {}},
                  {Verb::run, 2, {}},
                  {Verb::wait, 1, {}},
                  {Verb::run, 1, {}}};
  EXPECT_DOUBLE_EQ(replay(Graph(data), plan).cost, 2 + 10 + 3);
}

TEST(Replay, SharedLanesWaitForEachOther) {
  LaneClock apart({.first = {.out = {1, 0}, .in = {1, 0}}});
  EXPECT_EQ(apart.start_out(8), 1);
  EXPECT_EQ(apart.start_in(8), 1);
  EXPECT_EQ(apart.start_in(8), 2);
  LaneClock together({.first = {.out = {1, 0}, .in = {1, 0}, .shared = true}});
  EXPECT_EQ(together.start_out(8), 1);
  EXPECT_EQ(together.start_in(8), 2);
  together.run(5);
  EXPECT_EQ(together.start_in(8), 6);
}

TEST(Replay, RefusesWhatCannotBeDoneAndSaysWhere) {
  const Graph graph(two_ops());
  const auto error_of = [&](std::vector<Action> actions) -> std::string {
    Plan plan;
    plan.actions = std::move(actions);
    try {
      replay(graph, plan);
    } catch (const InputError& error) {
      return error.what();
    }
    return "no error";
  };
  EXPECT_THAT(error_of({{Verb::run, 1, {}}}), HasSubstr("action 0 of the plan cannot be done"));
  EXPECT_THAT(error_of({{Verb::run, 0, {}}, {Verb::run, 0, {}}}), HasSubstr("live already"));
  EXPECT_THAT(error_of({{Verb::run, 5, {}}}), HasSubstr("no such op"));
  EXPECT_THAT(error_of({{Verb::free, -2, {}}}), HasSubstr("no such tensor"));
  EXPECT_THAT(error_of({{Verb::free, 0, {}}}), HasSubstr("not live"));
  EXPECT_THAT(error_of({{Verb::prefetch, 1, {}}}), HasSubstr("never offloaded"));
  EXPECT_THAT(error_of({{Verb::wait, 1, {}}}), HasSubstr("no copy of the tensor is under way"));
  EXPECT_THAT(error_of({{Verb::run, 0, {}}, {Verb::offload, 1, {}}, {Verb::free, 1, {}}}),
              HasSubstr("a copy of the tensor is under way"));
  EXPECT_THAT(error_of({{Verb::run, 0, {}}, {Verb::offload, 1, {}}}), HasSubstr("at the end"));
  EXPECT_THAT(error_of({{Verb::run, 0, {}}, {Verb::run, 1, {0}}}), HasSubstr("in place"));
}

// ---- Random graphs -----------------------------------------------------------------------------

/// Memory during each action, from the set of live storages: O(actions x storages).
std::vector<Bytes> naive_memory(const Graph& graph, const Plan& plan) {
  std::set<TensorId> live;
  std::vector<Bytes> memory;
  for (const Action& action : plan.actions) {
    Bytes bytes = 0;
    if (action.verb == Verb::run) {
      const Op& ran = graph.op(action.index);
      bytes = ran.workspace_bytes;
      for (int position : action.in_place) {
        for (const InPlace& pair : ran.inplace) {
          if (pair.output == position) live.erase(graph.storage(ran.inputs[pair.input]));
        }
      }
      for (TensorId out : ran.outputs) live.insert(graph.storage(out));
    } else {
      live.erase(graph.storage(action.index));
    }
    for (TensorId id : live) {
      if (!graph.is_resident(id)) bytes += graph.tensor(id).bytes;
    }
    memory.push_back(graph.resident_bytes() + bytes);
  }
  return memory;
}

Bytes sum_at_peak(const Graph& graph, const Replay& result) {
  Bytes bytes = graph.resident_bytes() + result.workspace_at_peak;
  for (TensorId id : result.live_at_peak) bytes += graph.tensor(id).bytes;
  return bytes;
}

TEST(ReplayProperty, AgreesWithASetOfLiveStorages) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    const Graph graph = random_graph(seed);
    const Plan plan = with_in_place(graph, lower(graph, random_executions(graph, seed)));
    const Replay result = replay(graph, plan);
    EXPECT_EQ(result.memory, naive_memory(graph, plan));
    const auto peak = std::ranges::max_element(result.memory);
    EXPECT_EQ(result.peak_bytes, *peak);
    EXPECT_EQ(result.peak_action, peak - result.memory.begin());
    EXPECT_EQ(sum_at_peak(graph, result), result.peak_bytes);
    EXPECT_TRUE(std::ranges::is_sorted(result.live_at_peak, std::ranges::greater{},
                                       [&](TensorId id) { return graph.tensor(id).bytes; }));
  }
}

// ---- References --------------------------------------------------------------------------------

TEST(StructuralFloor, IsWhatTheNeediestOpTakes) {
  const Floor floor = structural_floor(Graph(two_ops()));
  EXPECT_EQ(floor.bytes, 147);
  EXPECT_EQ(floor.op, 1);
}

TEST(StructuralFloor, CountsOnceWhatAnOpReadsTwiceOrThroughViews) {
  GraphData data = two_ops();
  data.tensors.push_back(view("v", 1));
  data.ops.insert(data.ops.begin() + 1, op("make_v", {1}, {3}));
  data.ops[2].inputs = {1, 3, 1, 0};
  EXPECT_EQ(structural_floor(Graph(std::move(data))).bytes, 147);
}

TEST(StructuralFloor, AllowsForInPlaceWrites) {
  GraphData data = two_ops();
  data.ops[1].inplace = {{0, 0}};
  const Floor floor = structural_floor(Graph(std::move(data)));
  EXPECT_EQ(floor.bytes, 110);
  EXPECT_EQ(floor.op, 0);
}

TEST(StructuralFloor, LeavesOutOpsThatNoPlanNeeds) {
  GraphData data = two_ops();
  data.tensors.push_back(value("unused", 1'000'000));
  data.ops.push_back(op("waste", {2}, {3}));
  EXPECT_EQ(structural_floor(Graph(data)).bytes, 147);
  data.ops.back().recomputable = false;  // an effect
  EXPECT_EQ(structural_floor(Graph(data)).bytes, 1'000'040);
}

/// The graphs of the project: keep-all has the cost and the memory that the Python checker finds.
TEST(KeepAllReference, AgreesWithThePythonCheckerOnEveryGraphOfTheProject) {
  std::deque<Graph> graphs;
  std::deque<Plan> plans;
  std::vector<testing::PlanCase> cases;
  for (const auto& entry : std::filesystem::directory_iterator(LOWTIDE_SOURCE_DIR "/data/graphs")) {
    SCOPED_TRACE(entry.path().string());
    const Graph& graph = graphs.emplace_back(read_graph(entry.path()));
    const Plan& plan = plans.emplace_back(keep_all(graph));
    const KeepAll reference = keep_all_reference(graph);
    EXPECT_EQ(reference.cost, plan.cost);
    EXPECT_EQ(reference.peak_bytes, plan.peak_bytes);
    EXPECT_LE(structural_floor(graph).bytes, reference.peak_bytes);
    cases.push_back({&graph, &plan});
  }
  EXPECT_GT(cases.size(), 10u);
  EXPECT_TRUE(testing::are_valid_plans(cases));
}

}  // namespace
}  // namespace lowtide
