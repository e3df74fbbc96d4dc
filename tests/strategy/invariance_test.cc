// Invariance under labels, units and the order of independent ops.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "plan/in_place.h"
#include "plan/lower.h"
#include "planner/planner.h"
#include "support/ask.h"
#include "support/cheapest_sequence.h"
#include "support/random_graph.h"
#include "support/same_graph.h"
#include "support/sweep.h"

namespace lowtide::strategy {
namespace {

using testing::ask;
using testing::CheapestSequence;
using testing::random_graph;
using testing::relabelled;
using testing::reordered;
using testing::Sequences;
using testing::share_of_peak;
using testing::short_search;

// ---- Other units ---------------------------------------------------------------------------

/// Bytes and costs in other units.
Graph scaled(const Graph& graph, Bytes bytes, double cost) {
  GraphData data = graph.data();
  for (Tensor& tensor : data.tensors) tensor.bytes *= bytes;
  for (Op& op : data.ops) {
    op.workspace_bytes *= bytes;
    op.cost *= cost;
  }
  return Graph(std::move(data));
}

// ---- Strategies --------------------------------------------------------------------------------

/// The part of an answer that a user sees.
struct Result {
  Outcome outcome;
  double cost = 0;
  Bytes peak = 0;
  std::optional<double> bound;
  std::optional<Bytes> smallest;
  std::vector<OpId> executions;
  bool operator==(const Result&) const = default;
};

void PrintTo(const Result& result, std::ostream* out) {
  *out << name(result.outcome) << ", cost " << result.cost << ", peak " << result.peak
       << ", bound " << result.bound.value_or(-1) << ", smallest " << result.smallest.value_or(-1)
       << ", " << result.executions.size() << " executions";
}

Result result_of(std::string_view strategy, const Graph& graph, Bytes budget) {
  const Decision decision = ask(strategy, graph, budget, short_search(strategy, 3));
  Result result{decision.outcome, 0, 0, decision.lower_bound, decision.smallest_peak,
                decision.executions};
  if (decision.executions.empty()) return result;
  const Plan plan = with_in_place(graph, lower(graph, decision.executions));
  result.cost = plan.cost;
  result.peak = plan.peak_bytes;
  return result;
}

class EveryStrategyIsBlind : public ::testing::TestWithParam<std::string> {};

TEST_P(EveryStrategyIsBlind, ToTheLabelsOfTensors) {
  for (std::uint64_t seed = 0; seed < testing::sweep(12u, 4u); ++seed) {
    const Graph graph = random_graph(seed, {.ops = 10 + static_cast<int>(seed)});
    for (double share : {0.85, 0.6}) {
      SCOPED_TRACE(::testing::Message() << "seed " << seed << ", budget " << share);
      const Bytes budget = share_of_peak(graph, share);
      EXPECT_EQ(result_of(GetParam(), relabelled(graph, seed), budget),
                result_of(GetParam(), graph, budget));
    }
  }
}

/// Powers of two, so that rounding is the same.
TEST_P(EveryStrategyIsBlind, ToUnits) {
  for (std::uint64_t seed = 0; seed < testing::sweep(10u, 4u); ++seed) {
    const Graph graph = random_graph(seed, {.ops = 10 + static_cast<int>(seed)});
    const Graph other = scaled(graph, 1024, 1.0 / 64);
    for (double share : {0.85, 0.6}) {
      SCOPED_TRACE(::testing::Message() << "seed " << seed << ", budget " << share);
      const Bytes budget = share_of_peak(graph, share);
      Result result = result_of(GetParam(), other, 1024 * budget);
      result.cost *= 64;
      result.peak /= 1024;
      if (result.bound) *result.bound *= 64;
      if (result.smallest) *result.smallest /= 1024;
      EXPECT_EQ(result, result_of(GetParam(), graph, budget));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Registry, EveryStrategyIsBlind,
                         ::testing::ValuesIn(testing::strategy_names()),
                         [](const auto& info) { return testing::test_name(info.param); });

TEST(Planner, GivesTheSameArenaUnderOtherLabels) {
  int planned = 0;
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    const Graph graph = random_graph(seed, {.ops = 10 + 3 * static_cast<int>(seed)});
    const Graph other = relabelled(graph, seed);
    for (double share : {1.2, 0.9, 0.8}) {
      Control control;
      const Bytes budget = share_of_peak(graph, share);
      const planner::Planned a =
          planner::plan_within(graph, find_strategy("dtr"), budget, {}, control);
      const planner::Planned b =
          planner::plan_within(other, find_strategy("dtr"), budget, {}, control);
      EXPECT_EQ(a.smallest_budget, b.smallest_budget);
      ASSERT_EQ(a.plan.has_value(), b.plan.has_value());
      if (!a.plan) continue;
      EXPECT_EQ(a.plan->cost, b.plan->cost);
      EXPECT_EQ(a.plan->layout->arena_bytes, b.plan->layout->arena_bytes);
      ++planned;
    }
  }
  EXPECT_GT(planned, 12);
}

// ---- Quantities that do not depend on the order ------------------------------------------------

TEST(OtherOrder, HasTheSameCostAndFloor) {
  int changed = 0;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    const Graph graph = random_graph(seed, {.ops = 30, .effects = false});
    const Graph other = reordered(graph, seed);
    EXPECT_NEAR(keep_all_reference(other).cost, keep_all_reference(graph).cost, 1e-9);
    EXPECT_EQ(structural_floor(other).bytes, structural_floor(graph).bytes);
    changed += keep_all_reference(other).peak_bytes != keep_all_reference(graph).peak_bytes;
  }
  EXPECT_GT(changed, 20);
}

TEST(OtherOrder, HasTheSameOptimumOverAllOrders) {
  int rerunning = 0;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    const Graph graph =
        random_graph(seed, {.ops = 7, .views = false, .multi_output = false, .effects = false});
    const CheapestSequence here(graph), there(reordered(graph, seed));
    for (double share : {1.0, 0.9, 0.8, 0.6, 0.4}) {
      const Bytes budget = share_of_peak(graph, share);
      const double cost = here.cost(budget, Sequences::any_order);
      EXPECT_EQ(there.cost(budget, Sequences::any_order), cost);
      EXPECT_GE(here.cost(budget, Sequences::fixed_order), cost);
      rerunning += cost > keep_all_reference(graph).cost && cost < 1e9;
    }
  }
  EXPECT_GT(rerunning, 3);
}

}  // namespace
}  // namespace lowtide::strategy
