#include "cli/strategy_choice.h"

#include <fmt/format.h>

#include <sstream>

#include "base/error.h"
#include "offload/ways.h"

namespace lowtide::cli {

void add_strategy_option(planner::PlanningOptions& planning, const std::string& text) {
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos || equals + 1 == text.size()) {
    throw InputError(
        fmt::format("the option {} of a strategy is not of the form NAME=VALUE; `lowtide "
                    "strategies` lists the options of each strategy.",
                    text));
  }
  planning.strategy_options.insert_or_assign(text.substr(0, equals), text.substr(equals + 1));
}

const strategy::Strategy& strategy_without_moves(const std::string& name) {
  if (!offload::always_moves(name)) return strategy::find_strategy_or_default(name);
  throw InputError(fmt::format(
      "the strategy {} moves values to slower memory, and none is given; `lowtide plan` "
      "takes its --bandwidth, and `lowtide train` a --disk.",
      name));
}

StrategyChoice strategy_choice(const std::string& text) {
  std::istringstream parts(text);
  std::string name;
  std::getline(parts, name, ':');
  if (name.empty()) {
    throw InputError(fmt::format(
        "the name of a strategy in \"{}\" is empty; write it before its options.", text));
  }
  planner::PlanningOptions planning;
  for (std::string option; std::getline(parts, option, ':');) add_strategy_option(planning, option);
  const strategy::Strategy& strategy = strategy_without_moves(name);
  static_cast<void>(strategy::complete_options(strategy, planning.strategy_options));
  return {text, &strategy, std::move(planning.strategy_options)};
}

}  // namespace lowtide::cli
