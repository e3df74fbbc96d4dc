#include "bounds/contraction.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "bounds/price_bound.h"
#include "remat/event_plan.h"
#include "support/random_graph.h"

namespace lowtide::bounds {
namespace {

using testing::op;
using testing::random_step;
using testing::resident;
using testing::value;

/// a -> b -> c, then a backward op that reads a and c; c is an output too. Only b has one reader.
Graph three_in_a_row(Bytes of_b, Bytes of_c) {
  GraphData data;
  data.tensors = {resident("x", 64), value("a", 100), value("b", of_b), value("c", of_c),
                  value("grad", 100)};
  data.ops = {op("make_a", {0}, {1}, 5), op("make_b", {1}, {2}, 7), op("make_c", {2}, {3}, 11),
              op("back", {1, 3}, {4}, 1)};
  data.outputs = {3, 4};
  return Graph(std::move(data));
}

Contraction contraction_of(const Graph& graph) {
  const remat::StageGraph stages(graph);
  return contract(stages, std::vector<bool>(stages.num_values(), true), Gluing::loose);
}

TEST(Contraction, GluesAnOpToTheOnlyReaderOfWhatItMakes) {
  const Contraction result = contraction_of(three_in_a_row(100, 100));
  EXPECT_EQ(result.glued, std::vector{1});
  ASSERT_EQ(result.ops.size(), 3u);
  EXPECT_EQ(result.ops[1].stage, 2);
  EXPECT_EQ(result.ops[1].cost, 18);
  EXPECT_EQ(result.ops[1].inputs, std::vector{0});
  EXPECT_EQ(result.ops[1].outputs, std::vector{2});
}

TEST(Contraction, KeepsApartWhatMayBeWorthHolding) {
  // c is larger than b: holding b and making c again may pay. a has two readers.
  EXPECT_TRUE(contraction_of(three_in_a_row(100, 101)).glued.empty());
}

TEST(Contraction, KeepsApartWhatReadsSomethingElseWhenStrict) {
  GraphData data;
  data.tensors = {resident("x", 64), value("a", 100), value("b", 100), value("c", 100),
                  value("grad", 100)};
  data.ops = {op("make_a", {0}, {1}), op("make_b", {0}, {2}), op("add", {1, 2}, {3}),
              op("back", {3, 1}, {4})};
  data.outputs = {3, 4};
  const remat::StageGraph stages{Graph(std::move(data))};
  const std::vector<bool> all(stages.num_values(), true);
  EXPECT_EQ(contract(stages, all, Gluing::loose).glued, std::vector{1});
  EXPECT_TRUE(contract(stages, all, Gluing::strict).glued.empty());
}

struct PlanCost {
  Bytes peak;
  double cost;
};

std::vector<PlanCost> all_plans(const remat::StageGraph& stages) {
  std::vector<remat::Event> events;
  for (int t = 0; t < stages.end(); ++t) {
    for (int i = 0; i < t; ++i) {
      if (stages.may_rerun(i, t)) events.push_back({t, i});
    }
  }
  remat::EventPlan plan(stages, 0);
  std::vector<PlanCost> plans{{plan.memory().peak(), plan.cost()}};
  for (std::uint32_t set = 1; set < 1u << events.size(); ++set) {  // in Gray code: one change each
    const remat::Event event = events[static_cast<std::size_t>(__builtin_ctz(set))];
    plan.contains(event) ? plan.remove(event) : plan.add(event);
    plans.push_back({plan.memory().peak(), plan.cost()});
  }
  return plans;
}

double least_cost(const std::vector<PlanCost>& plans, Bytes budget) {
  double least = std::numeric_limits<double>::infinity();
  for (const PlanCost& plan : plans) {
    if (plan.peak <= budget) least = std::min(least, plan.cost);
  }
  return least;
}

TEST(Contraction, LeavesTheBoundBelowEveryPlan) {
  int with_glue = 0;
  int with_another_input = 0;
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    const bool deep = seed % 8 == 0;
    const Graph graph = random_step(seed, deep ? 4 : 3, deep ? 2 : 3);
    const remat::StageGraph stages(graph);
    const Contraction contraction = contraction_of(graph);
    with_glue += !contraction.glued.empty();
    for (int v : contraction.glued) {
      with_another_input += stages.stage(stages.value(v).last_reader()).inputs.size() > 1;
    }
    const std::vector<PlanCost> plans = all_plans(stages);
    for (Bytes budget = plans.front().peak - 1; ; --budget) {
      const double optimum = least_cost(plans, budget);
      if (optimum == std::numeric_limits<double>::infinity()) break;
      PriceBound bound(stages, budget);
      for (int values : {1, 2, 6}) {
        bound.raise(values, Gluing::loose, 2e4, Control());
        bound.raise(values, Gluing::strict, 2e4, Control());
        ASSERT_LE(bound.value(), optimum * (1 + 1e-9)) << budget << " bytes, " << values;
      }
    }
  }
  EXPECT_GT(with_glue, 100);
  EXPECT_GT(with_another_input, 10);
}

}  // namespace
}  // namespace lowtide::bounds
