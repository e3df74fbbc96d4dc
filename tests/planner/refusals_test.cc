#include <fmt/format.h>
#include <gtest/gtest.h>

#include <span>
#include <string>
#include <vector>

#include "bounds/budget_floor.h"
#include "graph/io.h"
#include "planner/planner.h"
#include "support/random_graph.h"
#include "support/sweep.h"

namespace lowtide::planner {
namespace {

Planned searched_within(const Graph& graph, Bytes budget, double seconds) {
  Control control(seconds);
  return plan_within(graph, strategy::default_strategy(), budget, {}, control);
}

TEST(Refusals, HaveAPlanForTheSmallestBudgetHoweverShortTheLimit) {
  for (const char* name : {"layered-100", "torch-gpt", "checkmate-unet"}) {
    const Graph graph = read_graph(fmt::format("{}/data/graphs/{}.json", LOWTIDE_SOURCE_DIR, name));
    for (double seconds : {0.05, 0.3, 1.0}) {
      SCOPED_TRACE(fmt::format("{} in {} s", name, seconds));
      const Planned planned = searched_within(graph, bounds::budget_floor(graph) - 1, seconds);
      ASSERT_EQ(planned.outcome, strategy::Outcome::infeasible);
      ASSERT_TRUE(planned.smallest_plan);
      EXPECT_EQ(planned.smallest_plan->layout->arena_bytes, planned.smallest_budget);
      EXPECT_LT(planned.smallest_budget, keep_all_reference(graph).peak_bytes);
    }
  }
}

/// Also with a limit that is too short to search within the named budget, or one just above it.
TEST(Refusals, NameABudgetThatIsMet) {
  for (std::uint64_t seed = 0; seed < testing::sweep(20u, 2u); ++seed) {
    const Graph graph = testing::random_step(seed, 150, 100);
    for (double seconds : {0.02, 0.2}) {
      const Planned refused = searched_within(graph, bounds::budget_floor(graph) - 1, seconds);
      ASSERT_TRUE(refused.smallest_budget);
      for (Bytes more : {0, 1, 4096}) {
        SCOPED_TRACE(fmt::format("seed {}, {} s, {} more", seed, seconds, more));
        const Planned met = searched_within(graph, *refused.smallest_budget + more, seconds);
        EXPECT_TRUE(met.plan) << met.message;
      }
    }
  }
}

/// A limit of more than one round goes on below the plan of the fewest bytes, which is all that is
/// looked for where a budget is below the floor.
TEST(Refusals, NameFewerBytesThatAreMetWhereThereIsTimeToGoOn) {
  constexpr double kSeconds = 7;
  const std::vector<std::string> names = {"layered-100", "layered-250", "layered-500"};
  bool is_any_smaller = false;
  for (const std::string& name :
       std::span(names).first(testing::sweep(names.size(), std::size_t{1}))) {
    SCOPED_TRACE(name);
    const Graph graph = read_graph(fmt::format("{}/data/graphs/{}.json", LOWTIDE_SOURCE_DIR, name));
    const Bytes floor = bounds::budget_floor(graph);
    const Planned hopeless = searched_within(graph, floor - 1, kSeconds);
    const Planned refused = searched_within(graph, floor + 1, kSeconds);
    ASSERT_TRUE(hopeless.smallest_budget && refused.smallest_budget);
    EXPECT_LE(*refused.smallest_budget, *hopeless.smallest_budget);
    EXPECT_TRUE(searched_within(graph, *refused.smallest_budget, kSeconds).plan);
    is_any_smaller |= *refused.smallest_budget < *hopeless.smallest_budget;
  }
  EXPECT_TRUE(is_any_smaller);
}

/// A plan runs views, which no search knows: what goes on from a plan leaves them out.
TEST(Refusals, GoOnToFewerBytesWhereThereAreViews) {
  const Graph graph = testing::random_graph(2, {.ops = 60, .effects = false});
  EXPECT_TRUE(searched_within(graph, bounds::budget_floor(graph), 5.2).smallest_plan);
}

}  // namespace
}  // namespace lowtide::planner
