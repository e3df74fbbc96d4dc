// A linear program over the layers of a model.

#include <gtest/gtest.h>

#include "plan/lower.h"
#include "remat/stage_graph.h"
#include "support/ask.h"
#include "support/attention_step.h"

namespace lowtide::strategy {
namespace {

using testing::ask;

double cost_within(const Graph& graph, std::string_view strategy, double share) {
  const Decision decision = ask(strategy, graph, testing::share_of_peak(graph, share));
  EXPECT_EQ(decision.outcome, Outcome::feasible) << strategy << " at " << share;
  return lower(graph, decision.executions).cost;
}

TEST(LayersLp, RunsLessAgainThanWholeLayersDo) {
  const Graph graph = testing::AttentionStep(8).graph();
  for (double share : {0.8, 0.6, 0.5}) {
    EXPECT_LT(cost_within(graph, "layers-lp", share), cost_within(graph, "megatron", share));
  }
}

TEST(LayersLp, CostsNoMoreWithMoreMemory) {
  const Graph graph = testing::AttentionStep(8).graph();
  double before = 1e30;
  for (double share = 0.4; share <= 1; share += 0.05) {
    const double cost = cost_within(graph, "layers-lp", share);
    EXPECT_LE(cost, before) << share;
    before = cost;
  }
}

TEST(LayersLp, RunsNothingAgainThatFits) {
  const Graph graph = testing::AttentionStep(3).graph();
  const double whole = lower(graph, remat::stage_order(remat::StageGraph(graph))).cost;
  EXPECT_EQ(cost_within(graph, "layers-lp", 1), whole);
}

}  // namespace
}  // namespace lowtide::strategy
