#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/nearest.h"
#include "strategy/strategy.h"

#ifdef LOWTIDE_HIGHS
#define LOWTIDE_SOLVER_STRATEGIES(USE) USE(checkmate) USE(checkmate_lp) USE(layers_lp)
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
  USE(greedy)                   \
  USE(megatron)                 \
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

namespace {

[[noreturn]] void refuse_option(const Strategy& strategy, const std::string& name) {
  std::vector<std::string> names;
  for (const StrategyOption& option : strategy.options) names.emplace_back(option.name);
  throw InputError(fmt::format("the strategy {} has no option \"{}\".{}", strategy.name, name,
                               names.empty() ? " It has none." : did_you_mean(name, names)));
}

}  // namespace

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

const StrategyOption* find_option(const Strategy& strategy, std::string_view name) {
  const auto found = std::ranges::find(strategy.options, name, &StrategyOption::name);
  return found == strategy.options.end() ? nullptr : &*found;
}

StrategyOptions complete_options(const Strategy& strategy, const GivenOptions& given) {
  StrategyOptions options = default_options(strategy);
  for (const auto& [name, value] : given) {
    const StrategyOption* option = find_option(strategy, name);
    if (option == nullptr) refuse_option(strategy, name);
    options[name] = option_number(*option, value, strategy.name);
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
