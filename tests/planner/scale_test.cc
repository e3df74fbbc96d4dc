// A graph of thousands of ops, limited by work instead of time: starts, bound and layout must work
// together.

#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "plan/replay.h"
#include "planner/planner.h"
#include "support/check_plan.h"
#include "support/random_graph.h"
#include "support/sweep.h"

namespace lowtide::planner {
namespace {

TEST(Scale, ALargeGraphIsPlannedNearItsBoundInLittleWork) {
  const int ops = testing::sweep(2000, 400);
  const Graph graph = testing::random_step(1, ops + 500, ops);
  const Bytes peak = keep_all_reference(graph).peak_bytes;
  Control control;
  const Planned planned = plan_within(graph, strategy::find_strategy("search"), peak * 7 / 10,
                                      {{"moves", 20}, {"bound", 0.2}, {"order", 0}}, control);
  ASSERT_TRUE(planned.plan) << planned.message;
  EXPECT_TRUE(testing::is_valid_plan(graph, *planned.plan));
  ASSERT_TRUE(planned.gap());
  EXPECT_LT(*planned.gap(), 0.05);
}

/// Endless moves: the counted work ends them, at any point of the search.
TEST(Scale, TheSameWorkGivesTheSamePlan) {
  const Graph graph = testing::random_step(2, 600, 500);
  const Bytes peak = keep_all_reference(graph).peak_bytes;
  std::vector<Plan> plans;
  for (int run = 0; run < 2; ++run) {
    Control control = Control::by_work(1);
    Planned planned = plan_within(graph, strategy::find_strategy("search"), peak * 6 / 10,
                                  {{"moves", 1e8}}, control);
    ASSERT_TRUE(planned.plan) << planned.message;
    EXPECT_GT(control.used_share(), 0.5);
    plans.push_back(std::move(*planned.plan));
  }
  EXPECT_EQ(plans[0].actions, plans[1].actions);
  EXPECT_EQ(plans[0].layout, plans[1].layout);
  EXPECT_EQ(plans[0].lower_bound, plans[1].lower_bound);
}

}  // namespace
}  // namespace lowtide::planner
