// Search and bound against the best of all sets of reruns, on graphs small enough to try them all.

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "plan/in_place.h"
#include "plan/lower.h"
#include "strategy/ask.h"
#include "strategy/bound/price_bound.h"
#include "strategy/search/event_plan.h"
#include "support/random_graph.h"

namespace lowtide {
namespace {

using testing::ask;
using testing::random_graph;

constexpr double kNever = std::numeric_limits<double>::infinity();

struct Candidate {
  double cost;
  Bytes peak;           ///< as a strategy sees it
  Bytes in_place_peak;  ///< after writing in place
};

std::vector<Event> allowed_events(const StageGraph& graph) {
  std::vector<Event> events;
  for (int t = 0; t < graph.num_stages(); ++t) {
    for (int i = 0; i < t && i < graph.end(); ++i) {
      if (graph.may_rerun(i, t)) events.push_back({t, i});
    }
  }
  return events;
}

std::vector<Candidate> all_plans(const Graph& graph, const StageGraph& stages,
                                 const std::vector<Event>& events) {
  std::vector<Candidate> plans;
  for (std::uint32_t set = 0; set < 1u << events.size(); ++set) {
    EventPlan plan(stages, 0);
    for (std::size_t e = 0; e < events.size(); ++e) {
      if (set >> e & 1) plan.add(events[e]);
    }
    const Plan lowered = lower(graph, plan.executions());
    const Plan overlaid = with_in_place(graph, lowered);
    plans.push_back({lowered.cost, lowered.peak_bytes, overlaid.peak_bytes});
  }
  return plans;
}

double least_cost(const std::vector<Candidate>& plans, Bytes Candidate::*peak, Bytes budget) {
  double least = kNever;
  for (const Candidate& plan : plans) {
    if (plan.*peak <= budget) least = std::min(least, plan.cost);
  }
  return least;
}

void compare(const Graph& graph, const std::vector<Candidate>& plans, Bytes budget) {
  const double optimum = least_cost(plans, &Candidate::peak, budget);
  const double in_place_optimum = least_cost(plans, &Candidate::in_place_peak, budget);
  const Decision decision = ask("search", graph, budget, {{"moves", 20}, {"bound", 0.001}});
  if (decision.lower_bound) {
    EXPECT_LE(*decision.lower_bound, in_place_optimum * (1 + 1e-9));
  }
  if (optimum == kNever) {
    EXPECT_EQ(decision.outcome, Outcome::infeasible);
    return;
  }
  ASSERT_FALSE(decision.executions.empty()) << decision.message;
  const Plan plan = lower(graph, decision.executions);
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
        bound.raise(values, 1e5, Control());
        ASSERT_LE(bound.value(), optimum * (1 + 1e-9)) << values << " values";
      }
    }
  }
}

TEST(PriceBound, IsTightOnAChainWithinRounding) {
  // Twenty equal layers at seven tenths of the memory: the plan costs at least some reruns.
  const Graph graph = testing::chain_graph(20);
  const StageGraph stages(graph);
  PriceBound bound(stages, testing::share_of_peak(graph, 0.7));
  for (int values : {1, 6}) bound.raise(values, 1e6, Control());
  const Decision decision = ask("search", graph, testing::share_of_peak(graph, 0.7));
  const double cost = lower(graph, decision.executions).cost;
  EXPECT_GT(bound.value(), stages.required_cost() + 1);
  EXPECT_LT(cost - bound.value(), 2);  // two runs of a forward op
}

}  // namespace
}  // namespace lowtide
