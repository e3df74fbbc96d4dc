#pragma once

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "plan/in_place.h"
#include "plan/lower.h"
#include "support/ask.h"
#include "support/brute_force.h"
#include "support/random_graph.h"

/// Budgets with a least cost known by brute force, for strategies that come close to it.
namespace lowtide::testing {

struct KnownOptimum {
  std::string label;
  Graph graph;
  Bytes budget;
  double cost;  ///< the least of any plan with writes in place; kNever where there is none
};

/// 40 small random graphs, at three shares of their peak each. Few cases have no plan: finding that
/// out is slow.
inline std::vector<KnownOptimum> known_optima() {
  std::vector<KnownOptimum> known;
  int graphs = 0, infeasible = 0;
  for (std::uint64_t seed = 0; graphs < 40; ++seed) {
    const Graph graph = random_graph(seed, {.ops = 5 + static_cast<int>(seed % 5)});
    const remat::StageGraph stages(graph);
    const std::vector<remat::Event> events = allowed_events(stages);
    if (events.size() < 3 || events.size() > 12) continue;
    ++graphs;
    const std::vector<Candidate> plans = all_plans(graph, stages, events);
    for (double share : {0.9, 0.75, 0.6}) {
      const auto budget =
          static_cast<Bytes>(share * static_cast<double>(plans.front().in_place_peak));
      const double cost = least_cost(plans, &Candidate::in_place_peak, budget);
      if (cost == kNever && ++infeasible > 4) continue;
      known.push_back({"seed " + std::to_string(seed) + ", share " + std::to_string(share), graph,
                       budget, cost});
    }
  }
  return known;
}

/// The cost of the strategy's plan, which must be within the budget; nothing if there is no plan,
/// and then the strategy must have said so.
inline std::optional<double> cost_of_answer(std::string_view strategy, const KnownOptimum& known,
                                            const strategy::GivenOptions& options) {
  const strategy::Decision decision = ask(strategy, known.graph, known.budget, options);
  if (known.cost == kNever) {
    EXPECT_EQ(decision.outcome, strategy::Outcome::infeasible) << known.label;
    return std::nullopt;
  }
  EXPECT_FALSE(decision.executions.empty()) << known.label << decision.message;
  const Plan plan = with_in_place(known.graph, lower(known.graph, decision.executions));
  EXPECT_LE(plan.peak_bytes, known.budget) << known.label;
  return plan.cost;
}

}  // namespace lowtide::testing
