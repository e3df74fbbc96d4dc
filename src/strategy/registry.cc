#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/nearest.h"
#include "strategy/strategy.h"

#ifdef LOWTIDE_HIGHS
#define LOWTIDE_SOLVER_STRATEGIES(USE) USE(checkmate) USE(checkmate_lp)
#else
#define LOWTIDE_SOLVER_STRATEGIES(USE)
#endif

// One line per strategy; the first is the default.
#define LOWTIDE_STRATEGIES(USE) \
  USE(search)                   \
  USE(keep_all)                 \
  USE(segments)                 \
  USE(chen_sqrt)                \
  USE(chen_greedy)              \
  USE(selective)                \
  USE(revolve)                  \
  USE(dtr)                      \
  USE(rotor)                    \
  USE(min_cut)                  \
  USE(lower_sets)               \
  USE(blocks)                   \
  USE(intervals)                \
  USE(anneal)                   \
  USE(evolve)                   \
  LOWTIDE_SOLVER_STRATEGIES(USE)

namespace lowtide::strategy {

#define LOWTIDE_DECLARE(name) Strategy name##_strategy();
LOWTIDE_STRATEGIES(LOWTIDE_DECLARE)
#undef LOWTIDE_DECLARE

std::span<const Strategy> strategies() {
#define LOWTIDE_CALL(name) name##_strategy(),
  static const std::vector<Strategy> all{LOWTIDE_STRATEGIES(LOWTIDE_CALL)};
#undef LOWTIDE_CALL
  return all;
}

const Strategy& find_strategy(std::string_view name) {
  const auto all = strategies();
  const auto found = std::ranges::find(all, name, &Strategy::name);
  if (found != all.end()) return *found;
  std::vector<std::string> names;
  for (const Strategy& strategy : all) names.emplace_back(strategy.name);
  throw InputError(fmt::format("there is no strategy \"{}\".{}", name, did_you_mean(name, names)));
}

const Strategy& default_strategy() { return strategies().front(); }

const Strategy& find_strategy_or_default(std::string_view name) {
  return name.empty() ? default_strategy() : find_strategy(name);
}

StrategyOptions default_options(const Strategy& strategy) {
  StrategyOptions options;
  for (const StrategyOption& option : strategy.options) {
    options.emplace(option.name, option.default_value);
  }
  return options;
}

std::string_view name(Outcome outcome) {
  switch (outcome) {
    case Outcome::optimal: return "optimal";
    case Outcome::feasible: return "feasible";
    case Outcome::infeasible: return "infeasible";
    case Outcome::stopped: return "stopped";
  }
  return "infeasible";
}

}  // namespace lowtide::strategy
