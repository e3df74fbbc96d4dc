#include "strategy/search/mixture.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "support/random_graph.h"
#include "support/some_plans.h"

namespace lowtide::strategy {
namespace {

using testing::plan_of;
using testing::some_events;

TEST(Mixture, FitsWhereverTheSmallerPlanDoesAndCostsNoMoreThanBoth) {
  int between = 0;
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    const remat::StageGraph graph(testing::random_step(seed, 20, 15));
    const std::vector<remat::Event> cheaper = some_events(graph, seed, 30);
    const std::vector<remat::Event> smaller = some_events(graph, seed + 1, 8);
    const Bytes small_peak = plan_of(graph, smaller, 0).memory().peak();
    search::Mixture mixture(graph, cheaper, smaller);
    EXPECT_FALSE(mixture.within(graph.resident_bytes()));
    // Up and down, since the mixture continues from its last state.
    for (Bytes limit : {small_peak, small_peak * 21 / 20, small_peak}) {
      const auto events = mixture.within(limit);
      ASSERT_TRUE(events);
      const remat::EventPlan plan = plan_of(graph, *events, limit);
      EXPECT_TRUE(plan.fits());
      for (remat::Event event : *events) {
        EXPECT_FALSE(plan.is_useless(event));
        EXPECT_TRUE(std::ranges::count(cheaper, event) || std::ranges::count(smaller, event));
      }
      between += *events != smaller && *events != cheaper && !events->empty();
    }
  }
  EXPECT_GT(between, 100);
}

TEST(Mixture, IsTheCheaperPlanWhereThatFits) {
  const remat::StageGraph graph(testing::chain_graph(10));
  search::Mixture mixture(graph, {}, {{15, 3}});
  const auto events = mixture.within(remat::EventPlan(graph, 0).memory().peak());
  ASSERT_TRUE(events);
  EXPECT_TRUE(events->empty());
}

}  // namespace
}  // namespace lowtide::strategy
