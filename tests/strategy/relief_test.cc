// Makes a plan fit, and drops outputs of several readers of one value together.

#include "strategy/search/relief.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "strategy/search/priced_descent.h"
#include "support/random_graph.h"
#include "support/some_plans.h"

namespace lowtide::strategy {
namespace {

using testing::plan_of;
using testing::some_events;

constexpr double kAnyCost = std::numeric_limits<double>::infinity();
constexpr int kGates = 4;
constexpr double kBlockCost = 10;
constexpr double kGateCost = 0.1;

/// A recurrence: each step makes a block at high cost, and from it gates, which the backward pass
/// reads in reverse.
Graph gated_steps(int steps) {
  GraphData data;
  data.name = "gated steps";
  const auto add = [&](const std::string& name, Bytes bytes, double cost,
                       std::vector<TensorId> inputs) {
    const auto id = static_cast<TensorId>(data.tensors.size());
    data.tensors.push_back(testing::value(name, bytes));
    data.ops.push_back(testing::op("make " + name, std::move(inputs), {id}, cost));
    return id;
  };
  TensorId state = add("first state", 1, 1, {});
  std::vector<std::vector<TensorId>> gates;
  for (int t = 0; t < steps; ++t) {
    const std::string of_step = " " + std::to_string(t);
    const TensorId block = add("block" + of_step, 320, kBlockCost, {state});
    gates.emplace_back();
    for (int k = 0; k < kGates; ++k) {
      gates.back().push_back(add("gate " + std::to_string(k) + of_step, 80, kGateCost, {block}));
    }
    state = add("state" + of_step, 1, kGateCost, gates.back());
  }
  TensorId gradient = add("loss", 400, 1, {state});
  for (int t = steps - 1; t >= 0; --t) {
    std::vector<TensorId> inputs = gates[t];
    inputs.push_back(gradient);
    gradient = add("gradient " + std::to_string(t), 1, 1, inputs);
  }
  data.outputs = {gradient};
  return Graph(std::move(data));
}

/// The stage that makes a value of that name.
int stage_of(const Graph& graph, const remat::StageGraph& stages, const std::string& name) {
  const auto found = std::ranges::find_if(stages.values(), [&](const remat::StageValue& value) {
    return graph.tensor(value.tensor).name == name;
  });
  return found->producer;
}

TEST(Relief, EndsWithAPlanThatFitsOrWithNone) {
  int relieved = 0;
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    const remat::StageGraph graph(testing::random_step(seed, 20, 15));
    const Bytes limit = remat::keep_all_peak(graph) * 7 / 10;
    for (const std::vector<remat::Event>& start :
         {std::vector<remat::Event>(), some_events(graph, seed, 30)}) {
      for (int patience : {1, search::Relief::kHasty, search::Relief::kThorough}) {
        const auto events = search::Relief(graph, limit).run(start, kAnyCost, Control(), patience);
        if (!events) continue;
        EXPECT_TRUE(plan_of(graph, *events, limit).fits());
        ++relieved;
      }
    }
  }
  EXPECT_GT(relieved, 300);
}

TEST(Relief, TriesFewDropsWhereManyAreAlike) {
  constexpr int kSteps = 300;
  const remat::StageGraph graph(gated_steps(kSteps));
  const Bytes limit = remat::keep_all_peak(graph) / 2;
  const Control control = Control::by_work(1e3);
  const auto events =
      search::Relief(graph, limit).run({}, kAnyCost, control, search::Relief::kHasty);
  ASSERT_TRUE(events);
  const double cost = plan_of(graph, *events, limit).cost();
  EXPECT_LT(cost, graph.required_cost() + 0.55 * kSteps * (kBlockCost + kGates * kGateCost));
  EXPECT_LT(control.used_seconds(), 0.1);
}

TEST(Relief, StopsWhenTold) {
  const remat::StageGraph graph(gated_steps(50));
  const Control control = Control::by_work(1e-5);
  control.count(1e6);
  EXPECT_FALSE(search::Relief(graph, remat::keep_all_peak(graph) / 2).run({}, kAnyCost, control));
}

TEST(Relief, TakesOutWhatAPlanFitsWithout) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    const remat::StageGraph graph(testing::random_step(seed, 20, 15));
    const Bytes limit = std::numeric_limits<Bytes>::max() / 2;
    const auto events =
        search::Relief(graph, limit).run(some_events(graph, seed, 30), kAnyCost, Control());
    ASSERT_TRUE(events);
    EXPECT_TRUE(events->empty());
  }
}

TEST(Relief, EndsWhereThePlanGetsTooDear) {
  const remat::StageGraph graph(gated_steps(8));
  const Bytes limit = remat::keep_all_peak(graph) - 320;
  EXPECT_FALSE(search::Relief(graph, limit).run({}, graph.required_cost() + kBlockCost, Control()));
  EXPECT_FALSE(search::Relief(graph, graph.resident_bytes()).run({}, kAnyCost, Control()));
}

TEST(Relief, DropsWhatIsMadeFromOneValueTogether) {
  const remat::StageGraph graph(gated_steps(8));
  for (int steps : {1, 2, 3}) {
    const Bytes limit = remat::keep_all_peak(graph) - steps * kGates * 80;
    const auto events = search::Relief(graph, limit).run({}, kAnyCost, Control());
    ASSERT_TRUE(events);
    const double cost = plan_of(graph, *events, limit).cost() - graph.required_cost();
    EXPECT_NEAR(cost, steps * (kBlockCost + kGates * kGateCost), steps * kGateCost);
  }
}

TEST(PricedDescent, DropsWhatIsMadeFromOneValueTogether) {
  constexpr int kSteps = 8;
  const Graph steps = gated_steps(kSteps);
  const remat::StageGraph graph(steps);
  std::vector<double> price(graph.num_stages());
  // Less than a block for any one gate, more for all gates made from it.
  price[stage_of(steps, graph, "loss")] = 0.5 * kBlockCost / 80;
  const std::vector<remat::Event> events =
      search::PricedDescent(graph, remat::Prices(price)).run({}, Control());
  const remat::EventPlan plan = plan_of(graph, events, 0);
  for (int t = 0; t < kSteps; ++t) {
    const int block = stage_of(steps, graph, "block " + std::to_string(t));
    EXPECT_EQ(plan.runs(block).size(), 2) << "step " << t;
  }
}

TEST(PricedDescent, HoldsTogetherWhatItDroppedTogether) {
  const remat::StageGraph graph(gated_steps(4));
  const std::vector<double> free(graph.num_stages());
  const auto relieved =
      search::Relief(graph, remat::keep_all_peak(graph) - 320).run({}, kAnyCost, Control());
  ASSERT_TRUE(relieved);
  EXPECT_TRUE(search::PricedDescent(graph, remat::Prices(free)).run(*relieved, Control()).empty());
}

TEST(Moves, DropOnlyWhatIsWorthIt) {
  const Graph steps = gated_steps(4);
  const remat::StageGraph graph(steps);
  remat::EventPlan plan(graph, 0);
  remat::Moves moves(graph, plan);
  const remat::Event gate{stage_of(steps, graph, "gradient 0"), stage_of(steps, graph, "gate 0 0")};
  const auto block_for = [](double price) { return [=](remat::Event, int) { return price; }; };
  const double before = plan.cost();
  EXPECT_FALSE(moves.drop_if_worth(gate, kGateCost + 1, block_for(2)));  // neither held nor made
  EXPECT_FALSE(moves.any());
  EXPECT_DOUBLE_EQ(plan.cost(), before);
  EXPECT_TRUE(moves.drop_if_worth(gate, kGateCost + 3, block_for(2)));  // the block is held
  EXPECT_DOUBLE_EQ(plan.cost(), before + kGateCost);
  moves.undo();
  EXPECT_TRUE(moves.drop_if_worth(gate, 100, block_for(50)));  // everything is made again
  EXPECT_GT(plan.cost(), before + kBlockCost);
  moves.hold_with_readers({gate.stage, stage_of(steps, graph, "block 0")});
  EXPECT_DOUBLE_EQ(plan.cost(), before);
  EXPECT_TRUE(plan.events().empty());
}

}  // namespace
}  // namespace lowtide::strategy
