// The genetic algorithm: its operators on plans, and the strategy as a whole.

#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.h"
#include "graph/io.h"
#include "plan/lower.h"
#include "planner/planner.h"
#include "strategy/evolve/breeding.h"
#include "support/ask.h"
#include "support/known_optimum.h"
#include "support/random_graph.h"
#include "support/stopping.h"

namespace lowtide::strategy {
namespace {

using testing::ask;
using testing::random_graph;
using testing::share_of_peak;

/// Checks the individual's own figures with a new EventPlan.
void expect_honest(const remat::StageGraph& stages, const evolve::Individual& plan, Bytes limit) {
  remat::EventPlan own(stages, limit);
  remat::change_to(own, plan.events);
  EXPECT_NEAR(plan.cost, own.cost(), 1e-6);
  EXPECT_EQ(plan.excess, own.memory().excess());
  EXPECT_TRUE(std::ranges::is_sorted(plan.events));
  for (remat::Event event : plan.events) EXPECT_FALSE(own.is_useless(event));
}

TEST(Breeding, ChildrenAreWhatTheySay) {
  const Control control;
  int fitting = 0;
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    const Graph graph = random_graph(seed, {.ops = 50});
    const remat::StageGraph stages(graph);
    const Bytes limit = share_of_peak(graph, 0.85);
    evolve::Breeding breeding(stages, limit, seed, control);
    std::vector<evolve::Individual> plans;
    for (int i = 0; i < 4; ++i) plans.push_back(breeding.raise({}));
    for (int i = 0; i < 6; ++i) plans.push_back(breeding.cross(plans[i], plans[i + 1]));
    for (int i = 0; i < 4; ++i) plans.push_back(breeding.mutate(plans[i]));
    for (const evolve::Individual& plan : plans) {
      expect_honest(stages, plan, limit);
      fitting += plan.excess == 0;
    }
  }
  EXPECT_GT(fitting, 50);
}

TEST(Breeding, TakesOutWhatIsNotNeededAndNoMore) {
  const Graph graph = testing::chain_graph(12);
  const remat::StageGraph stages(graph);
  const Control control;
  const Bytes peak = share_of_peak(graph, 1);
  EXPECT_TRUE(evolve::Breeding(stages, peak, 1, control).raise({{15, 3}, {16, 2}}).events.empty());
  const evolve::Individual small = evolve::Breeding(stages, peak * 6 / 10, 2, control).raise({});
  ASSERT_EQ(small.excess, 0);
  for (remat::Event event : small.events) {
    remat::EventPlan without(stages, peak * 6 / 10);
    remat::change_to(without, small.events);
    without.remove(event);
    EXPECT_FALSE(without.fits());
  }
}

TEST(Breeding, FitterIsWhatFitsThenWhatCostsLess) {
  const evolve::Individual fits{{}, 10, 0};
  const evolve::Individual cheap{{}, 9, 0};
  const evolve::Individual over{{}, 1, 5};
  EXPECT_TRUE(evolve::is_fitter(fits, over));
  EXPECT_TRUE(evolve::is_fitter(cheap, fits));
  EXPECT_FALSE(evolve::is_fitter(fits, fits));
}

TEST(Evolve, ReachesTheOptimumOfMostSmallGraphsAndNothingBelow) {
  int asked = 0;
  int optimal = 0;
  for (const testing::KnownOptimum& known : testing::known_optima()) {
    const std::optional<double> cost =
        cost_of_answer("evolve", known, {{"population", 12}, {"generations", 12}});
    if (!cost) continue;
    ASSERT_GE(*cost, known.cost - 1e-6) << known.label;
    ++asked;
    optimal += *cost <= known.cost + 1e-6;
  }
  EXPECT_GE(optimal, asked * 9 / 10);
}

TEST(Evolve, GivesTheSamePlanAgainAndAnotherForAnotherSeed) {
  const Graph graph = testing::chain_graph(40);
  const Bytes budget = share_of_peak(graph, 0.5);
  GivenOptions options{{"population", 8}, {"generations", 3}, {"seed", 5}};
  const Decision first = ask("evolve", graph, budget, options);
  EXPECT_EQ(first.executions, ask("evolve", graph, budget, options).executions);
  options["seed"] = 6;
  EXPECT_NE(first.executions, ask("evolve", graph, budget, options).executions);
}

TEST(Evolve, MoreGenerationsNeverCostMore) {
  const Graph graph = read_graph(LOWTIDE_SOURCE_DIR "/data/graphs/checkmate-resnet50.json");
  const Bytes budget = share_of_peak(graph, 0.4);
  std::vector<double> costs;
  for (double generations : {0.0, 4.0, 12.0}) {
    const Decision decision =
        ask("evolve", graph, budget, {{"population", 16}, {"generations", generations}});
    ASSERT_EQ(decision.outcome, Outcome::feasible);
    costs.push_back(lower(graph, decision.executions).cost);
  }
  EXPECT_GE(costs[0], costs[1]);
  EXPECT_GE(costs[1], costs[2]);
  EXPECT_GT(costs[0], costs[2]);
}

TEST(Evolve, AnswersWithItsBestWhenTheTimeIsOver) {
  testing::expect_best_when_time_is_over("evolve", "generations", 0.5);
}

TEST(Evolve, EndsWhenTheUserSaysSo) { testing::expect_end_when_user_says_so("evolve"); }

TEST(Evolve, RefusesAPopulationOfOne) {
  const Graph graph = testing::chain_graph(5);
  Control control;
  EXPECT_THROW(
      planner::plan_within(graph, find_strategy("evolve"), 1 << 20, {{"population", 1}}, control),
      InputError);
}

}  // namespace
}  // namespace lowtide::strategy
