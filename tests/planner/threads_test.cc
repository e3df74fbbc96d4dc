// Plans made in several threads at once, as Python programs do.

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "plan/replay.h"
#include "planner/known_plans.h"
#include "support/random_graph.h"

namespace lowtide::planner {
namespace {

Planned planned_within(const Graph& graph, Bytes budget) {
  Control control = Control::by_work(0.05);
  return plan_within(graph, strategy::default_strategy(), budget, {}, control);
}

TEST(Threads, PlansOfOneGraphMadeAtOnceAreThoseMadeOneAfterTheOther) {
  const Graph graph = testing::random_graph(3);
  const Bytes peak = keep_all_reference(graph).peak_bytes;
  constexpr int kThreads = 4;
  std::vector<Planned> at_once(kThreads);
  KnownPlans known;
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < kThreads; ++i) {
      threads.emplace_back([&, i] {
        at_once[i] = planned_within(graph, peak - i * peak / 20);
        known.best(graph, at_once[i]);
      });
    }
  }
  for (int i = 0; i < kThreads; ++i) {
    const Planned alone = planned_within(graph, peak - i * peak / 20);
    ASSERT_EQ(alone.plan.has_value(), at_once[i].plan.has_value()) << i;
    if (alone.plan) {
      EXPECT_EQ(alone.plan->cost, at_once[i].plan->cost) << i;
    }
  }
}

}  // namespace
}  // namespace lowtide::planner
