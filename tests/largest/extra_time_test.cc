#include "largest/extra_time.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "plan/replay.h"
#include "support/random_graph.h"

namespace lowtide::largest {
namespace {

TEST(ExtraTimeTest, TextsAreReadBack) {
  for (const char* text : {"any", "forward", "30%", "2.5%", "0%"}) {
    EXPECT_EQ(format_extra_time(parse_extra_time(text)), text);
  }
}

TEST(ExtraTimeTest, OtherTextsAreRefused) {
  for (const char* text : {"", "30", "backward", "-5%", "x%", "30MB"}) {
    EXPECT_THROW(parse_extra_time(text), InputError) << text;
  }
}

TEST(ExtraTimeTest, LimitsAreThatMuchAboveKeepAll) {
  const Graph graph = testing::chain_graph(12);
  double forward = 0;
  for (const Op& op : graph.ops()) forward += op.phase == Phase::forward ? op.cost : 0;
  const double own = keep_all_reference(graph).cost;
  ASSERT_GT(forward, 0);
  ASSERT_GT(own, forward);
  EXPECT_TRUE(std::isinf(cost_limit(graph, parse_extra_time("any"))));
  EXPECT_NEAR(cost_limit(graph, parse_extra_time("forward")), own + forward, 1e-6 * own);
  EXPECT_NEAR(cost_limit(graph, parse_extra_time("30%")), 1.3 * own, 1e-6 * own);
}

}  // namespace
}  // namespace lowtide::largest
