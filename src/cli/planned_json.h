#pragma once

#include <nlohmann/json.hpp>
#include <string_view>

#include "planner/more_budget.h"
#include "planner/planner.h"

namespace lowtide::cli {

/// The result of planning, for programs: budget_bytes, strategy, status, cost, overhead,
/// peak_bytes, arena_bytes, lower_bound, bound_model, gap, seconds; null for missing values.
nlohmann::json to_json(const planner::Planned& planned, std::string_view strategy);

/// The plans of which none costs less than a bound, in words. `model`: Plan::model.
std::string_view plans_of_bound(std::string_view model);

/// extra_bytes, saves_at_most, saves; null for unknown values.
nlohmann::json to_json(const planner::MoreBudget& more);

}  // namespace lowtide::cli
