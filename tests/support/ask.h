#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "plan/replay.h"
#include "strategy/strategy.h"

namespace lowtide::testing {

/// Asks a strategy, with its default options apart from those given.
inline strategy::Decision ask(std::string_view strategy, const Graph& graph, Bytes budget,
                              const strategy::GivenOptions& given = {},
                              Control control = Control()) {
  const strategy::Strategy& asked = strategy::find_strategy(strategy);
  return asked.decide({graph, budget, strategy::complete_options(asked, given), control});
}

/// Options for strategies that otherwise run for seconds: enough work for a small graph. Strategies
/// with a solver refuse graphs that are too large for it.
inline strategy::GivenOptions short_search(std::string_view strategy, double thousand_moves) {
  const double rows = thousand_moves < 10 ? 400 : 2500;
  if (strategy == "search") return {{"moves", thousand_moves}, {"bound", 0.001}, {"order", 0.1}};
  if (strategy == "checkmate") return {{"nodes", 1}, {"rows", rows}, {"start", thousand_moves}};
  if (strategy == "checkmate-lp") return {{"rows", rows}};
  if (strategy == "intervals") return {{"rounds", thousand_moves}, {"conflicts", 1}};
  if (strategy == "anneal") return {{"moves", thousand_moves}};
  if (strategy == "evolve") return {{"population", 5}, {"generations", 2}};
  return {};
}

/// For tests that take each strategy of the registry as a parameter.
inline std::vector<std::string> strategy_names() {
  std::vector<std::string> names;
  for (const strategy::Strategy& strategy : strategy::strategies())
    names.emplace_back(strategy.name);
  return names;
}

/// The text as a parameter name that GoogleTest accepts.
inline std::string test_name(std::string strategy) {
  std::ranges::replace(strategy, '-', '_');
  return strategy;
}

inline Bytes share_of_peak(const Graph& graph, double share) {
  return static_cast<Bytes>(share * static_cast<double>(keep_all_reference(graph).peak_bytes));
}

}  // namespace lowtide::testing
