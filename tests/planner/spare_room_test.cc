#include "planner/spare_room.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <numeric>
#include <random>
#include <utility>
#include <vector>

#include "graph/io.h"
#include "plan/in_place.h"
#include "plan/lower.h"
#include "plan/replay.h"
#include "plan/verify.h"
#include "planner/planner.h"
#include "support/brute_force.h"
#include "support/check_plan.h"
#include "support/random_graph.h"

namespace lowtide::planner {
namespace {

using testing::chain_graph;
using testing::op;
using testing::value;

constexpr std::int64_t kWork = 10'000'000;

PlacedPlan laid_out(const Graph& graph, std::vector<OpId> executions) {
  Plan plan = with_in_place(graph, lower(graph, executions));
  plan.layout = layout::assign_addresses(graph, plan, {.alignment = 1});
  return {std::move(plan), std::move(executions)};
}

PlacedPlan improved(const Graph& graph, PlacedPlan given, Bytes budget) {
  return without_needless_reruns(graph, std::move(given),
                                 {1, budget - graph.resident_bytes(), kWork}, Control());
}

/// Every op of the chain, and after the loss all activations but the last two again.
std::vector<OpId> with_activations_again(const Graph& chain) {
  const OpId layers = chain.num_ops() / 2;
  std::vector<OpId> executions(chain.num_ops());
  std::iota(executions.begin(), executions.end(), 0);
  std::vector<OpId> again(layers - 2);
  std::iota(again.begin(), again.end(), 0);
  executions.insert(executions.begin() + layers + 2, again.begin(), again.end());
  return executions;
}

TEST(SpareRoom, NothingRunsAgainWhereEverythingMayBeKept) {
  const Graph graph = chain_graph(10);
  const PlacedPlan given = laid_out(graph, with_activations_again(graph));
  const KeepAll all = keep_all_reference(graph);
  ASSERT_GT(given.plan.cost, all.cost);
  const PlacedPlan better = improved(graph, given, all.peak_bytes);
  EXPECT_EQ(better.plan.cost, all.cost);
  EXPECT_EQ(better.executions.size(), static_cast<std::size_t>(graph.num_ops()));
  EXPECT_TRUE(testing::is_valid_plan(graph, better.plan, all.peak_bytes));
}

/// With space for some more values than the plan holds, as many of its reruns are removed.
TEST(SpareRoom, AsManyRerunsGoAsThereIsRoomFor) {
  const Graph graph = chain_graph(10);
  const PlacedPlan given = laid_out(graph, with_activations_again(graph));
  const Bytes most = given.plan.layout->arena_bytes;
  double cost = given.plan.cost;
  for (Bytes room = 0; most + room < keep_all_reference(graph).peak_bytes; room += 1024) {
    const PlacedPlan better = improved(graph, given, most + room);
    EXPECT_LE(better.plan.cost, cost - (room > 0));
    EXPECT_TRUE(testing::is_valid_plan(graph, better.plan, most + room));
    cost = better.plan.cost;
  }
}

TEST(SpareRoom, LeavesAloneWhatIsNoSetOfReruns) {
  const Graph graph = chain_graph(10);
  std::vector<OpId> executions = with_activations_again(graph);
  executions.insert(executions.begin() + graph.num_ops() / 2 + 2, 0);  // op 0 twice in one stage
  const PlacedPlan given = laid_out(graph, executions);
  const PlacedPlan same = improved(graph, given, keep_all_reference(graph).peak_bytes);
  EXPECT_EQ(same.executions, given.executions);
  EXPECT_EQ(same.plan.cost, given.plan.cost);
}

/// b may be made twice, and a before it or after it.
TEST(SpareRoom, ThoseOfAnotherOrderGoToo) {
  GraphData data;
  data.tensors = {value("a", 4), value("b", 2), value("c", 2), value("d", 1)};
  data.ops = {op("make_a", {}, {0}), op("make_b", {}, {1}), op("make_c", {0, 1}, {2}),
              op("make_d", {1, 2}, {3})};
  data.outputs = {3};
  const Graph graph(std::move(data));
  const PlacedPlan given = laid_out(graph, {1, 0, 2, 1, 3});
  const PlacedPlan better = improved(graph, given, 8);
  EXPECT_EQ(better.executions, (std::vector<OpId>{1, 0, 2, 3}));
  EXPECT_TRUE(testing::is_valid_plan(graph, better.plan, 8));
}

/// With views, workspaces, effects and writes in place.
TEST(SpareRoomProperty, NeverDearerAndWithinTheBudget) {
  int cheaper = 0;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    const Graph graph =
        seed % 2 == 0 ? testing::random_graph(seed) : testing::random_step(seed, 15, 15);
    const remat::StageGraph stages(graph);
    std::mt19937_64 random(seed);
    std::vector<remat::Event> reruns = testing::allowed_events(stages);
    std::erase_if(reruns, [&](remat::Event) { return random() % 4 != 0; });
    const PlacedPlan given = laid_out(graph, remat::executions_of(stages, reruns));
    const Bytes arena = given.plan.layout->arena_bytes;
    for (int percent : {100, 105, 120}) {
      SCOPED_TRACE(fmt::format("seed {} at {}%", seed, percent));
      const Bytes budget = arena * percent / 100;
      const PlacedPlan better = improved(graph, given, budget);
      EXPECT_LE(better.plan.cost, given.plan.cost);
      const auto violation = verify(graph, better.plan, budget);
      EXPECT_FALSE(violation) << violation->message;
      cheaper += better.plan.cost < given.plan.cost;
    }
  }
  EXPECT_GT(cheaper, 90);
}

TEST(SpareRoom, TheSameAgain) {
  const Graph graph = read_graph(LOWTIDE_SOURCE_DIR "/data/graphs/layered-100.json");
  const Bytes budget = keep_all_reference(graph).peak_bytes * 7 / 10;
  const auto plan = [&] {
    Control control = Control::by_work(2);
    return plan_within(graph, strategy::default_strategy(), budget, {}, control);
  };
  const Planned first = plan(), second = plan();
  ASSERT_TRUE(first.plan && second.plan);
  EXPECT_EQ(first.plan->actions, second.plan->actions);
  EXPECT_EQ(first.plan->layout, second.plan->layout);
}

}  // namespace
}  // namespace lowtide::planner
