#include "strategy/search/mixture.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "support/random_graph.h"
#include "support/some_plans.h"

namespace lowtide {
namespace {

using testing::plan_of;
using testing::some_events;

TEST(Mixture, FitsWhereverTheLeanerPlanDoesAndCostsNoMoreThanBoth) {
  int between = 0;
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    const StageGraph graph(testing::random_step(seed, 20, 15));
    const std::vector<Event> cheaper = some_events(graph, seed, 30);
    const std::vector<Event> leaner = some_events(graph, seed + 1, 8);
    const Bytes lean_peak = plan_of(graph, leaner, 0).memory().peak();
    Mixture mixture(graph, cheaper, leaner);
    EXPECT_FALSE(mixture.within(graph.resident_bytes()));
    // Up and down, since the mixture goes on from where it was.
    for (Bytes limit : {lean_peak, lean_peak * 21 / 20, lean_peak}) {
      const auto events = mixture.within(limit);
      ASSERT_TRUE(events);
      const EventPlan plan = plan_of(graph, *events, limit);
      EXPECT_TRUE(plan.fits());
      for (Event event : *events) {
        EXPECT_FALSE(plan.is_useless(event));
        EXPECT_TRUE(std::ranges::count(cheaper, event) || std::ranges::count(leaner, event));
      }
      between += *events != leaner && *events != cheaper && !events->empty();
    }
  }
  EXPECT_GT(between, 100);
}

TEST(Mixture, IsTheCheaperPlanWhereThatFits) {
  const StageGraph graph(testing::chain_graph(10));
  Mixture mixture(graph, {}, {{15, 3}});
  const auto events = mixture.within(EventPlan(graph, 0).memory().peak());
  ASSERT_TRUE(events);
  EXPECT_TRUE(events->empty());
}

}  // namespace
}  // namespace lowtide
