#include "remat/event_plan.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "plan/in_place.h"
#include "plan/lower.h"
#include "plan/replay.h"
#include "support/brute_force.h"
#include "support/random_graph.h"

namespace lowtide::remat {
namespace {

using testing::allowed_events;
using testing::random_graph;

/// The oracle is lowering and replay, which do not use stages.
void expect_exact(const Graph& graph, const StageGraph& stages, const EventPlan& plan) {
  const std::vector<OpId> executions = executions_of(stages, plan.events());
  const Plan lowered = with_in_place(graph, lower(graph, executions));
  const Replay replayed = replay(graph, lowered);
  ASSERT_EQ(plan.memory().peak(), replayed.peak_bytes);
  ASSERT_NEAR(plan.cost(), replayed.cost, 1e-6);
}

TEST(EventPlan, MemoryAndCostAreThoseOfTheLoweredPlan) {
  for (std::uint64_t seed = 0; seed < 150; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    const Graph graph = random_graph(seed, {.ops = 10 + static_cast<int>(seed % 40)});
    const StageGraph stages(graph);
    const std::vector<Event> allowed = allowed_events(stages);
    EventPlan plan(stages, 0);
    expect_exact(graph, stages, plan);
    std::mt19937_64 random(seed);
    for (int step = 0; step < 60 && !allowed.empty(); ++step) {
      const Event event = allowed[random() % allowed.size()];
      plan.contains(event) ? plan.remove(event) : plan.add(event);
      if (step % 4 == 0) expect_exact(graph, stages, plan);
    }
    while (!plan.events().empty()) plan.remove(plan.events().front());
    expect_exact(graph, stages, plan);
  }
}

TEST(EventPlan, KnowsWhatAnEventIsFor) {
  // f1 f2 f3 b3 b2 b1 end; b_i reads a_i, a_{i-1} and the gradient after it.
  const Graph graph = testing::chain_graph(3, 100);
  const StageGraph stages(graph);
  EventPlan plan(stages, 0);
  const Event second_again{4, 1};  // f2 before b2
  plan.add(second_again);
  EXPECT_TRUE(plan.contains(second_again));
  EXPECT_FALSE(plan.is_useless(second_again));
  EXPECT_TRUE(plan.stretches({3, 3}, stages.stage(3).inputs[0]));  // b3 is the last to read a2
  const int a2 = stages.stage(1).outputs[0];
  EXPECT_EQ(plan.last_stage(a2, 0), 3);
  EXPECT_EQ(plan.last_stage(a2, 1), 4);
  EXPECT_EQ(plan.next_use(a2, 0, 3), 3);
  EXPECT_EQ(plan.next_use(a2, 0, 4), -1);
  plan.add({5, 1});  // nothing reads a2 any more
  EXPECT_TRUE(plan.is_useless({5, 1}));
  EXPECT_FALSE(plan.is_useless(second_again));
}

}  // namespace
}  // namespace lowtide::remat
