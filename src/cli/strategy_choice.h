#pragma once

#include <string>

#include "planner/planning_options.h"
#include "strategy/strategy.h"

namespace lowtide::cli {

/// "segments=8", an option of a strategy. Throws InputError for another form.
void add_strategy_option(planner::PlanningOptions& planning, const std::string& text);

/// The strategy of that name that plans without slower memory; the default one for an empty name.
/// Throws InputError that says so for one that moves values.
const strategy::Strategy& strategy_without_moves(const std::string& name);

/// A strategy with options of it.
struct StrategyChoice {
  std::string text;  ///< as typed
  const strategy::Strategy* strategy = nullptr;
  strategy::GivenOptions options = {};
};

/// Of "megatron:granularity=selective:layers=2". Throws InputError for options that the strategy
/// does not have, too.
StrategyChoice strategy_choice(const std::string& text);

}  // namespace lowtide::cli
