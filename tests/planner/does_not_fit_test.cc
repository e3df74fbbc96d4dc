#include "planner/does_not_fit.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "bounds/budget_floor.h"
#include "support/random_graph.h"
#include "support/sweep.h"

namespace lowtide::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr Bytes kReserved = 7680;

planner::DoesNotFit refusal(const Graph& graph, Bytes budget_bytes) {
  Control control(0.3);
  return {graph, planner::plan_within(graph, strategy::default_strategy(), budget_bytes - kReserved,
                                      {}, control, kReserved)};
}

TEST(DoesNotFit, SaysTheSmallestBudgetOfItsField) {
  for (std::uint64_t seed = 0; seed < testing::sweep(10u, 3u); ++seed) {
    const Graph graph = random_graph(seed);
    const planner::DoesNotFit error = refusal(graph, bounds::budget_floor(graph) + kReserved - 1);
    ASSERT_TRUE(error.smallest_budget_bytes);
    EXPECT_THAT(error.what(), HasSubstr(fmt::format("reaches is {} ({} bytes)",
                                                    format_bytes(*error.smallest_budget_bytes),
                                                    *error.smallest_budget_bytes)));
    EXPECT_EQ(error.floor_bytes, bounds::budget_floor(graph) + kReserved);

    Control control(0.3);
    EXPECT_TRUE(planner::plan_within(graph, strategy::default_strategy(),
                                     *error.smallest_budget_bytes - kReserved, {}, control)
                    .plan);
  }
}

TEST(DoesNotFit, SuspectsAShareByTheWholeBudget) {
  EXPECT_THAT(refusal(chain_graph(3), 45).what(), HasSubstr("Did you mean 45%?"));
  EXPECT_THAT(refusal(chain_graph(3), kReserved + 45).what(), Not(HasSubstr("Did you mean")));
}

}  // namespace
}  // namespace lowtide::testing
