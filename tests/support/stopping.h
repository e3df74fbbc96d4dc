#pragma once

#include <gtest/gtest.h>

#include <string_view>

#include "plan/in_place.h"
#include "plan/lower.h"
#include "support/ask.h"
#include "support/random_graph.h"

namespace lowtide::testing {

/// A strategy with endless work by `option` must answer with its best when time runs out.
inline void expect_best_when_time_is_over(std::string_view name, std::string_view option,
                                          double share) {
  const Graph graph = chain_graph(60);
  const Bytes budget = share_of_peak(graph, share);
  const strategy::Strategy& strategy = strategy::find_strategy(name);
  strategy::StrategyOptions options = strategy::default_options(strategy);
  options.find(option)->second = 1e9;
  Control control(0.3);
  const strategy::Decision decision = strategy.decide({graph, budget, options, control});
  ASSERT_EQ(decision.outcome, strategy::Outcome::feasible);
  EXPECT_LE(with_in_place(graph, lower(graph, decision.executions)).peak_bytes, budget);
}

/// A strategy that is stopped before it begins must say so, and have no plan.
inline void expect_end_when_user_says_so(std::string_view name) {
  const Graph graph = chain_graph(50);
  Control::request_stop();
  const strategy::Decision decision = ask(name, graph, share_of_peak(graph, 0.3));
  Control::clear_stop();
  EXPECT_EQ(decision.outcome, strategy::Outcome::stopped);
  EXPECT_TRUE(decision.executions.empty());
}

}  // namespace lowtide::testing
