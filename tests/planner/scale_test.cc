// A graph of thousands of ops, with work instead of time as the limit: that starts, bound and layout
// hold up together.

#include <gtest/gtest.h>

#include "plan/replay.h"
#include "planner/planner.h"
#include "support/check_plan.h"
#include "support/random_graph.h"

namespace lowtide {
namespace {

TEST(Scale, ALargeGraphIsPlannedNearItsBoundInLittleWork) {
  const Graph graph = testing::random_step(1, 2500, 2000);
  const Bytes peak = keep_all_reference(graph).peak_bytes;
  Control control;
  const Planned planned = plan_within(graph, find_strategy("search"), peak * 7 / 10,
                                      {{"moves", 20}, {"bound", 0.2}, {"order", 0}}, control);
  ASSERT_TRUE(planned.plan) << planned.message;
  EXPECT_TRUE(testing::is_valid_plan(graph, *planned.plan));
  ASSERT_TRUE(planned.gap());
  EXPECT_LT(*planned.gap(), 0.05);
}

}  // namespace
}  // namespace lowtide
