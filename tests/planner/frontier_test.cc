#include "planner/frontier.h"

#include <gtest/gtest.h>

#include "bounds/budget_floor.h"
#include "graph/io.h"
#include "plan/replay.h"
#include "plan/verify.h"
#include "support/ask.h"
#include "support/random_graph.h"
#include "support/sweep.h"
#include "support/tiny_graphs.h"
#include "support/two_branches.h"

namespace lowtide::planner {
namespace {

const strategy::GivenOptions kShort{{"moves", 5}, {"bound", 0.001}};

void expect_monotone(const Graph& graph, const Frontier& found) {
  for (std::size_t i = 0; i < found.points.size(); ++i) {
    const Planned& point = found.points[i];
    ASSERT_TRUE(point.plan);
    EXPECT_FALSE(verify(graph, *point.plan, point.budget_bytes));
    EXPECT_LE(point.plan->layout->arena_bytes, point.budget_bytes);
    if (point.plan->lower_bound) {
      EXPECT_LE(*point.plan->lower_bound, point.plan->cost * (1 + 1e-9));
    }
    if (i == 0) continue;
    const Planned& more = found.points[i - 1];
    EXPECT_LT(point.budget_bytes, more.budget_bytes);
    EXPECT_GE(point.plan->cost, more.plan->cost);
    EXPECT_GE(point.plan->lower_bound.value_or(0), more.plan->lower_bound.value_or(0));
  }
}

TEST(Frontier, FallsFromTheSmallestBudgetToKeepAll) {
  const Graph graph = read_graph(LOWTIDE_SOURCE_DIR "/data/graphs/chain-20s3.json");
  Control control;
  const Frontier found = frontier(graph, strategy::default_strategy(), 6, kShort, control);
  ASSERT_EQ(found.points.size(), 6U);
  expect_monotone(graph, found);
  const KeepAll reference = keep_all_reference(graph);
  EXPECT_EQ(found.points.front().budget_bytes, reference.peak_bytes);
  EXPECT_EQ(found.points.front().plan->cost, reference.cost);
  EXPECT_EQ(found.points.back().budget_bytes, found.smallest_budget);
  EXPECT_GT(found.points.back().plan->cost, reference.cost);
  EXPECT_GE(*found.smallest_budget, structural_floor(graph).bytes);
}

TEST(Frontier, IsMonotoneOnRandomGraphs) {
  for (unsigned seed = 0; seed < testing::sweep(8u, 3u); ++seed) {
    SCOPED_TRACE(seed);
    const Graph graph = testing::random_graph(seed);
    for (const char* strategy : {"search", "revolve"}) {
      Control control;
      const strategy::GivenOptions options =
          strategy == strategy::default_strategy().name ? kShort : strategy::GivenOptions{};
      expect_monotone(graph,
                      frontier(graph, strategy::find_strategy(strategy), 4, options, control));
    }
  }
}

TEST(Frontier, IsMonotoneOverADenseCurve) {
  std::size_t points = 0;
  for (unsigned seed = 20; seed < testing::sweep(24u, 22u); ++seed) {
    SCOPED_TRACE(seed);
    const Graph graph = testing::random_graph(seed, {.ops = 25});
    for (const char* strategy : {"search", "dtr", "rotor"}) {
      Control control;
      const Frontier found = frontier(graph, strategy::find_strategy(strategy), 25,
                                      testing::short_search(strategy, 2), control);
      expect_monotone(graph, found);
      points += found.points.size();
    }
  }
  EXPECT_GT(points, testing::sweep(150u, 70u));
}

/// Uses the better order only when it must.
strategy::Decision reluctantly(const strategy::PlanRequest& request) {
  strategy::Decision decision;
  decision.outcome = strategy::Outcome::feasible;
  if (request.budget_bytes < 102) {
    decision.outcome = strategy::Outcome::infeasible;
    decision.smallest_peak = 102;
  } else if (request.budget_bytes < 110) {
    decision.executions = {0, 2, 1, 3, 4};
    decision.lower_bound = 5;
    decision.bound_model = "any-order";
  } else {
    decision.executions = {0, 1, 0, 2, 1, 3, 4};
    decision.lower_bound = 7;
  }
  return decision;
}

/// The smallest budget that the strategy reached, and the minimum for any plan.
TEST(Frontier, EndsAboveTheFloor) {
  const Graph graph = read_graph(LOWTIDE_SOURCE_DIR "/data/graphs/chain-20s0.json");
  Control control;
  const Frontier found = frontier(graph, strategy::default_strategy(), 3, kShort, control);
  EXPECT_EQ(found.floor_bytes, bounds::budget_floor(graph));
  EXPECT_GE(*found.smallest_budget, found.floor_bytes);
}

/// A bound for plans in the graph's order does not apply to a cheaper plan in another order.
TEST(Frontier, TakesNoBoundForAPlanThatCostsLess) {
  const strategy::Strategy strategy{.name = "reluctant",
                                    .summary = {},
                                    .guarantee = {},
                                    .paper = {},
                                    .options = {},
                                    .decide = reluctantly};
  Control control;
  const Frontier found = frontier(testing::two_branches(), strategy, 4, {}, control);
  ASSERT_EQ(found.points.size(), 4U);
  for (const Planned& point : found.points) {
    EXPECT_EQ(point.plan->cost, 5);
    if (point.plan->lower_bound) {
      EXPECT_LE(*point.plan->lower_bound, point.plan->cost);
    }
  }
}

/// Of all sets of reruns, the smallest peak; a gap between addresses may need a little more.
TEST(Frontier, EndsAtTheSmallestPeakOfTinyGraphs) {
  testing::TinyGraphs graphs(0);
  int equal = 0;
  constexpr int kGraphs = 40;
  for (int i = 0; i < kGraphs; ++i) {
    const testing::Tiny tiny = graphs.next();
    SCOPED_TRACE(tiny.graph.name());
    const Bytes least =
        std::ranges::min(tiny.plans, {}, &testing::Candidate::in_place_peak).in_place_peak;
    Control control;
    strategy::GivenOptions given_order = kShort;
    given_order["order"] = 0;
    const Frontier found =
        frontier(tiny.graph, strategy::default_strategy(), 3, given_order, control);
    ASSERT_TRUE(found.smallest_budget);
    EXPECT_GE(*found.smallest_budget, least);
    const Frontier any = frontier(tiny.graph, strategy::default_strategy(), 3, kShort, control);
    EXPECT_LE(any.smallest_budget, found.smallest_budget);
    equal += *found.smallest_budget == least;
  }
  EXPECT_GE(equal, kGraphs - 4);
}

TEST(Frontier, EndsWhenStoppedWithWhatItHas) {
  const Graph graph = read_graph(LOWTIDE_SOURCE_DIR "/data/graphs/chain-20s3.json");
  int messages = 0;
  Control control(0, [&messages](const std::string& message) {
    if (message.starts_with("search within") && ++messages == 4) Control::request_stop();
  });
  const Frontier found = frontier(graph, strategy::default_strategy(), 8, kShort, control);
  Control::clear_stop();
  EXPECT_TRUE(found.stopped);
  EXPECT_GE(found.points.size(), 2U);
  EXPECT_LT(found.points.size(), 8U);
  expect_monotone(graph, found);
}

}  // namespace
}  // namespace lowtide::planner
