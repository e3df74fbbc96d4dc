#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "offload/joint.h"
#include "support/random_graph.h"
#include "support/sweep.h"

namespace lowtide::offload {
namespace {

using planner::Planned;
using ::testing::HasSubstr;

/// By counted work: a search within a limit looks at more plans.
Planned moved_within(const Graph& graph, Bytes budget, std::optional<Bytes> slower_bytes) {
  constexpr Lanes kFast{.out = {0, 1e-4}, .in = {0, 1e-4}};
  Control control = Control::by_work(slower_bytes ? 0.2 : 0.05);
  return plan_with(graph, budget, {.lanes = kFast, .bytes = slower_bytes}, Ways::move, control);
}

TEST(SlowerLimitProperty, WhatAPlanNeedsOfSlowerMemoryIsEnough) {
  int limited_plans = 0;
  for (std::uint64_t seed = 0; seed < testing::sweep(400u, 40u); ++seed) {
    SCOPED_TRACE(seed);
    const Graph graph = seed % 2 == 0 ? testing::random_step(seed, 10, 8)
                                      : testing::random_graph(seed, {.ops = 20});
    const Bytes budget = testing::share_of_peak(graph, 0.7 + 0.04 * static_cast<double>(seed % 7));
    const Planned free = moved_within(graph, budget, std::nullopt);
    if (!free.plan || !free.plan->slower) continue;
    const Bytes limit = free.plan->slower->bytes;
    const Planned limited = moved_within(graph, budget, limit);
    ASSERT_TRUE(limited.plan) << limited.message;
    EXPECT_LE(limited.plan->slower ? limited.plan->slower->bytes : 0, limit);
    ++limited_plans;
  }
  EXPECT_GT(limited_plans, 10);
}

TEST(SlowerLimit, IsNamedByARefusal) {
  const Graph graph = testing::chain_graph(12);
  const Bytes budget = testing::share_of_peak(graph, 0.6);
  EXPECT_THAT(moved_within(graph, budget, 64).message,
              HasSubstr("with room for 64 B (64 bytes) in slower memory"));
}

}  // namespace
}  // namespace lowtide::offload
