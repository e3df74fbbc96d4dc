#include "planner/known_plans.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <random>

#include "graph/handed_out.h"
#include "layout/sections.h"
#include "plan/replay.h"
#include "plan/verify.h"
#include "support/random_graph.h"

namespace lowtide::planner {
namespace {

Planned planned(const Graph& graph, const char* strategy, Bytes budget) {
  Control control;
  return plan_within(graph, strategy::find_strategy(strategy), budget, {}, control);
}

void expect_sound(const Graph& graph, const Planned& found) {
  EXPECT_FALSE(verify(graph, *found.plan, found.budget_bytes));
  EXPECT_EQ(found.plan->budget_bytes, found.budget_bytes);
  EXPECT_LE(found.plan->lower_bound.value_or(0), found.plan->cost * (1 + 1e-9));
  EXPECT_TRUE(found.outcome == strategy::Outcome::feasible ||
              found.outcome == strategy::Outcome::optimal);
}

/// The least cost of a plan that fits, among the given answers.
std::optional<double> least_cost(const std::vector<Planned>& answers, Bytes budget) {
  std::optional<double> least;
  for (const Planned& answer : answers) {
    if (!answer.plan || answer.plan->layout->arena_bytes > budget) continue;
    least = std::min(least.value_or(answer.plan->cost), answer.plan->cost);
  }
  return least;
}

TEST(KnownPlans, NoAnswerIsWorseThanAnEarlierOneForLess) {
  for (unsigned seed = 0; seed < 12; ++seed) {
    SCOPED_TRACE(seed);
    const Graph graph = testing::random_graph(seed);
    const Bytes peak = keep_all_reference(graph).peak_bytes;
    std::mt19937 random(seed);
    std::uniform_real_distribution<double> share(0.3, 1.0);
    KnownPlans known;
    std::vector<Planned> answers;
    for (int i = 0; i < 12; ++i) {
      // Strategies of different quality, none of them monotone.
      const char* strategy = std::array{"selective", "chen-sqrt", "dtr"}[i % 3];
      const Bytes budget = static_cast<Bytes>(share(random) * static_cast<double>(peak));
      answers.push_back(known.best(graph, planned(graph, strategy, budget)));
      const std::optional<double> least = least_cost(answers, budget);
      EXPECT_EQ(answers.back().plan.has_value(), least.has_value());
      if (!answers.back().plan) continue;
      expect_sound(graph, answers.back());
      EXPECT_EQ(answers.back().plan->cost, *least);
    }
  }
}

TEST(KnownPlans, AnswerWhereASearchFindsNothing) {
  const Graph graph = testing::random_graph(1);
  const Bytes peak = keep_all_reference(graph).peak_bytes;
  KnownPlans known;
  known.best(graph, planned(graph, "keep-all", peak * 2));
  Planned nothing;
  nothing.budget_bytes = peak * 2;
  nothing.message = "infeasible";
  const Planned found = known.best(graph, nothing);
  ASSERT_TRUE(found.plan);
  expect_sound(graph, found);
  EXPECT_TRUE(found.message.empty());
}

/// Of a plan that is made for more than its arena, the outputs may end so high that less is left.
TEST(KnownPlans, AnswerOnlyWhereTheyLeaveWhatIsNeededAfterwards) {
  int answered = 0, refused = 0;
  for (unsigned seed = 0; seed < 30; ++seed) {
    const Graph drawn = testing::random_graph(seed);
    const Bytes peak = keep_all_reference(drawn).peak_bytes;
    const Graph graph = with_after_bytes(drawn, peak / 3);
    KnownPlans known;
    known.best(graph, planned(graph, "keep-all", peak * 2));
    for (int percent = 100; percent < 140; percent += 5) {
      Planned nothing;
      nothing.budget_bytes = peak * percent / 100;
      const Planned found = known.best(graph, nothing);
      (found.plan ? answered : refused) += 1;
      if (found.plan) {
        EXPECT_LE(layout::needed_bytes(graph, *found.plan), nothing.budget_bytes);
      }
    }
  }
  EXPECT_GT(answered, 0);
  EXPECT_GT(refused, 0);
}

}  // namespace
}  // namespace lowtide::planner
