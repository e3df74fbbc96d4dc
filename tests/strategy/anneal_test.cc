// Plain simulated annealing as a strategy.

#include <gtest/gtest.h>

#include "base/error.h"
#include "plan/lower.h"
#include "planner/planner.h"
#include "support/ask.h"
#include "support/known_optimum.h"
#include "support/random_graph.h"
#include "support/stopping.h"

namespace lowtide::strategy {
namespace {

using testing::ask;
using testing::random_graph;
using testing::share_of_peak;

double cost_of(const Graph& graph, const Decision& decision) {
  return lower(graph, decision.executions).cost;
}

TEST(Anneal, ReachesTheOptimumOfSmallGraphsAndNothingBelow) {
  for (const testing::KnownOptimum& known : testing::known_optima()) {
    const std::optional<double> cost = cost_of_answer("anneal", known, {{"moves", 50}});
    if (cost) {
      EXPECT_NEAR(*cost, known.cost, 1e-6) << known.label;
    }
  }
}

TEST(Anneal, GivesTheSamePlanForTheSameSeedWithOrWithoutTimeToSpare) {
  const Graph graph = random_graph(7, {.ops = 60});
  const Bytes budget = share_of_peak(graph, 0.8);
  const GivenOptions given{{"moves", 60}, {"seed", 5}};
  const Decision first = ask("anneal", graph, budget, given);
  EXPECT_EQ(first.executions, ask("anneal", graph, budget, given).executions);
  const Strategy& anneal = find_strategy("anneal");
  Control hour(3600);
  const PlanRequest request{graph, budget, complete_options(anneal, given), hour};
  EXPECT_EQ(first.executions, anneal.decide(request).executions);
}

TEST(Anneal, GoesOnFromAnEarlierAnswer) {
  const Graph graph = testing::chain_graph(30);
  const Bytes budget = share_of_peak(graph, 0.5);
  const Decision first = ask("anneal", graph, budget, {{"moves", 200}});
  const Strategy& anneal = find_strategy("anneal");
  StrategyOptions options = default_options(anneal);
  options["moves"] = 0.1;
  Control control;
  const Decision second =
      anneal.decide({graph, budget, options, control, first.executions});
  EXPECT_LE(cost_of(graph, second), cost_of(graph, first));
}

TEST(Anneal, AnswersWithItsBestWhenTheTimeIsOver) {
  testing::expect_best_when_time_is_over("anneal", "moves", 0.4);
}

TEST(Anneal, EndsWhenTheUserSaysSo) { testing::expect_end_when_user_says_so("anneal"); }

TEST(Anneal, RefusesTemperaturesThatRise) {
  const Graph graph = testing::chain_graph(5);
  Control control;
  const Strategy& anneal = find_strategy("anneal");
  EXPECT_THROW(
      planner::plan_within(graph, anneal, 1 << 20, {{"first", 0.1}, {"last", 0.2}}, control),
      InputError);
  EXPECT_THROW(planner::plan_within(graph, anneal, 1 << 20, {{"moves", -1}}, control), InputError);
}

}  // namespace
}  // namespace lowtide::strategy
