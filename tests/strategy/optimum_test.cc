// Search and bound against the best of all sets of reruns, on graphs small enough to try them all.

#include <gtest/gtest.h>

#include <vector>

#include "plan/in_place.h"
#include "plan/lower.h"
#include "plan/verify.h"
#include "strategy/ask.h"
#include "strategy/bound/price_bound.h"
#include "support/brute_force.h"
#include "support/random_graph.h"

namespace lowtide {
namespace {

using testing::all_plans;
using testing::allowed_events;
using testing::ask;
using testing::Candidate;
using testing::kNever;
using testing::least_cost;
using testing::random_graph;

void compare(const Graph& graph, const std::vector<Candidate>& plans, Bytes budget) {
  const double optimum = least_cost(plans, &Candidate::in_place_peak, budget);
  const Decision decision =
      ask("search", graph, budget, {{"moves", 20}, {"bound", 0.001}, {"order", 0}});
  if (decision.lower_bound) {
    EXPECT_LE(*decision.lower_bound, optimum * (1 + 1e-9));
  }
  if (optimum == kNever) {
    EXPECT_EQ(decision.outcome, Outcome::infeasible);
    return;
  }
  ASSERT_FALSE(decision.executions.empty()) << decision.message;
  const Plan plan = with_in_place(graph, lower(graph, decision.executions));
  EXPECT_LE(plan.peak_bytes, budget);
  EXPECT_NEAR(plan.cost, optimum, 1e-6);
}

TEST(Optimum, SearchReachesItAndTheBoundStaysBelow) {
  int graphs = 0;
  for (std::uint64_t seed = 0; graphs < 60; ++seed) {
    const Graph graph = random_graph(seed, {.ops = 5 + static_cast<int>(seed % 5)});
    const StageGraph stages(graph);
    const std::vector<Event> events = allowed_events(stages);
    if (events.size() < 3 || events.size() > 12) continue;
    ++graphs;
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    const std::vector<Candidate> plans = all_plans(graph, stages, events);
    const Bytes keep_all = plans.front().peak;
    for (double share : {0.95, 0.85, 0.75, 0.6}) {
      SCOPED_TRACE(::testing::Message() << "budget " << share);
      compare(graph, plans, static_cast<Bytes>(share * static_cast<double>(keep_all)));
    }
  }
}

TEST(PriceBound, IsBelowEveryPlanForEverySizeOfCluster) {
  int graphs = 0;
  for (std::uint64_t seed = 1000; graphs < 40; ++seed) {
    const Graph graph = random_graph(seed, {.ops = 6 + static_cast<int>(seed % 5)});
    const StageGraph stages(graph);
    const std::vector<Event> events = allowed_events(stages);
    if (events.size() < 3 || events.size() > 11) continue;
    ++graphs;
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    const std::vector<Candidate> plans = all_plans(graph, stages, events);
    for (const Candidate& target : plans) {
      PriceBound bound(stages, target.in_place_peak);
      ASSERT_FALSE(bound.infeasible());
      if (&target - plans.data() > 6) break;
      const double optimum = least_cost(plans, &Candidate::in_place_peak, target.in_place_peak);
      for (int values : {1, 2, 5, 9}) {
        for (Gluing gluing : {Gluing::loose, Gluing::strict}) {
          bound.raise(values, gluing, 1e5, Control());
        }
        ASSERT_LE(bound.value(), optimum * (1 + 1e-9)) << values << " values";
      }
    }
  }
}

TEST(PriceBound, AllowsForEveryByteThatMayBeWrittenOver) {
  // The verifier lets a small output take the place of a larger input, which then is gone.
  GraphData data;
  data.tensors = {testing::resident("x", 8), testing::value("a", 100), testing::value("b", 10)};
  data.ops = {testing::op("make", {0}, {1}), testing::op("shrink", {1}, {2})};
  data.ops[1].inplace = {{0, 0}};
  data.outputs = {2};
  const Graph graph(std::move(data));
  Plan plan;
  plan.actions = {testing::run(0), testing::run(1, {0})};
  plan.cost = 2;
  plan.peak_bytes = plan.budget_bytes.emplace(108);
  ASSERT_FALSE(verify(graph, plan));
  const StageGraph stages(graph);
  const PriceBound bound(stages, 108);
  EXPECT_FALSE(bound.infeasible());
}

TEST(PriceBound, IsTightOnAChainWithinRounding) {
  // Twenty equal layers at seven tenths of the memory: the plan costs at least some reruns.
  const Graph graph = testing::chain_graph(20);
  const StageGraph stages(graph);
  PriceBound bound(stages, testing::share_of_peak(graph, 0.7));
  for (int values : {1, 6}) bound.raise(values, Gluing::loose, 1e6, Control());
  const Decision decision = ask("search", graph, testing::share_of_peak(graph, 0.7));
  const double cost = lower(graph, decision.executions).cost;
  EXPECT_GT(bound.value(), stages.required_cost() + 1);
  EXPECT_LT(cost - bound.value(), 2);  // two runs of a forward op
}

}  // namespace
}  // namespace lowtide
