#include "cli/planned_json.h"

#include "cli/or_null.h"

namespace lowtide::cli {

nlohmann::json to_json(const planner::Planned& planned, std::string_view strategy) {
  nlohmann::json j = {{"strategy", strategy},
                      {"budget_bytes", planned.budget_bytes},
                      {"status", strategy::name(planned.outcome)},
                      {"seconds", planned.seconds},
                      {"repeatable", planned.repeatable},
                      {"keep_all_cost", planned.keep_all_cost},
                      {"keep_all_peak_bytes", planned.keep_all_peak_bytes},
                      {"smallest_budget_bytes", or_null(planned.smallest_budget)}};
  for (const char* key :
       {"cost", "overhead", "peak_bytes", "arena_bytes", "lower_bound", "bound_model", "gap"}) {
    j[key] = nullptr;
  }
  if (!planned.plan) return j;
  const Plan& plan = *planned.plan;
  j["cost"] = plan.cost;
  j["overhead"] = planned.overhead();
  j["peak_bytes"] = plan.peak_bytes;
  if (plan.layout) j["arena_bytes"] = plan.layout->arena_bytes;
  j["lower_bound"] = or_null(plan.lower_bound);
  if (plan.lower_bound) j["bound_model"] = plan.model;
  j["gap"] = or_null(planned.gap());
  return j;
}

std::string_view plans_of_bound(std::string_view model) {
  if (model == "any-order") return "all plans";
  if (model == "fixed-order") return "plans in the graph's order";
  if (model == "stages") return "plans in the graph's order, each op once in a stage";
  return "plans in the graph's order, each op once in a stage and seldom";
}

nlohmann::json to_json(const planner::MoreBudget& more) {
  return {{"extra_bytes", more.extra_bytes},
          {"saves_at_most", or_null(more.saves_at_most)},
          {"saves", or_null(more.saves)}};
}

}  // namespace lowtide::cli
