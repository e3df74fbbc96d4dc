#include "offload/published.h"

#include <gtest/gtest.h>

#include <utility>

#include "plan/replay.h"
#include "support/ask.h"
#include "support/expect_valid.h"
#include "support/random_graph.h"
#include "support/random_moves.h"
#include "support/sweep.h"

namespace lowtide::offload {
namespace {

using testing::expect_valid;

Bytes copied(const Graph& graph, const Plan& plan, Verb verb) {
  Bytes bytes = 0;
  for (const Action& action : plan.actions) {
    if (action.verb == verb) bytes += graph.tensor(action.index).bytes;
  }
  return bytes;
}

Graph with_phases(std::uint64_t seed) {
  constexpr int kForward = 12;
  GraphData data = testing::random_step(seed, kForward, 10).data();
  for (std::size_t i = kForward; i < data.ops.size(); ++i) data.ops[i].phase = Phase::backward;
  return Graph(std::move(data));
}

TEST(SaveOnCpu, MovesWhatTheBackwardPassReadsAndWaitsForIt) {
  int moving = 0;
  for (std::uint64_t seed = 0; seed < lowtide::testing::sweep(400u, 40u); ++seed) {
    SCOPED_TRACE(seed);
    const Graph graph = with_phases(seed);
    const Lanes lanes = testing::some_lanes(seed);
    const Plan plan = save_on_cpu(graph, lanes);
    expect_valid(graph, plan);
    EXPECT_LE(plan.peak_bytes, keep_all_reference(graph).peak_bytes);
    const Bytes in = copied(graph, plan, Verb::prefetch);
    EXPECT_GE(plan.cost,
              keep_all_reference(graph).cost + static_cast<double>(in) * lanes.in.per_byte);
    if (in > 0) ++moving;
  }
  EXPECT_GT(moving, 10);
}

TEST(Capuchin, MovesOrRerunsUntilTheRestFits) {
  int moving = 0, within = 0;
  for (std::uint64_t seed = 0; seed < lowtide::testing::sweep(400u, 40u); ++seed) {
    SCOPED_TRACE(seed);
    const Graph graph = testing::random_step(seed, 12, 10);
    const Bytes budget = testing::share_of_peak(graph, seed % 2 == 0 ? 0.8 : 0.6);
    const Plan plan = capuchin(graph, budget, testing::some_lanes(seed));
    expect_valid(graph, plan);
    if (plan.peak_bytes <= budget) ++within;
    if (copied(graph, plan, Verb::prefetch) > 0) ++moving;
  }
  EXPECT_GT(moving, 10);
  EXPECT_GT(within, 10);
}

TEST(Capuchin, MovesNothingWhereAllFits) {
  const Graph graph = testing::random_step(3, 12, 10);
  const Plan plan = capuchin(graph, testing::share_of_peak(graph, 1), testing::some_lanes(3));
  EXPECT_EQ(copied(graph, plan, Verb::offload), 0);
  EXPECT_EQ(plan.cost, keep_all_reference(graph).cost);
}

}  // namespace
}  // namespace lowtide::offload
