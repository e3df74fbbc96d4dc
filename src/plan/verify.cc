#include "plan/verify.h"

#include "plan/broken_rule.h"
#include "plan/plan_checker.h"

namespace lowtide {

std::string_view name(Rule rule) {
  switch (rule) {
    case Rule::bad_index: return "bad_index";
    case Rule::input_not_live: return "input_not_live";
    case Rule::output_already_live: return "output_already_live";
    case Rule::runs_twice: return "runs_twice";
    case Rule::effect_crosses: return "effect_crosses";
    case Rule::stale_input: return "stale_input";
    case Rule::bad_in_place: return "bad_in_place";
    case Rule::not_live: return "not_live";
    case Rule::bad_prefetch: return "bad_prefetch";
    case Rule::bad_wait: return "bad_wait";
    case Rule::copy_under_way: return "copy_under_way";
    case Rule::bad_resident: return "bad_resident";
    case Rule::old_copy: return "old_copy";
    case Rule::not_away: return "not_away";
    case Rule::missing_effect: return "missing_effect";
    case Rule::output_not_live: return "output_not_live";
    case Rule::over_budget: return "over_budget";
    case Rule::no_address: return "no_address";
    case Rule::negative_address: return "negative_address";
    case Rule::overlap: return "overlap";
    case Rule::over_border: return "over_border";
    case Rule::arena_over_budget: return "arena_over_budget";
    case Rule::place_over_budget: return "place_over_budget";
    case Rule::wrong_claim: return "wrong_claim";
  }
  return "unknown";
}

std::optional<Violation> verify(const Graph& graph, const Plan& plan, std::optional<Bytes> budget) {
  std::int32_t at = kNone;
  try {
    PlanChecker checker(graph, plan);
    for (at = 0; at < static_cast<std::int32_t>(plan.actions.size()); ++at) checker.act(at);
    at = kNone;
    checker.check_end();
    checker.check_budget(budget ? budget : plan.budget_bytes);
    checker.check_claims();
    checker.check_budgets_of_places();
    return std::nullopt;
  } catch (const BrokenRule& broken) {
    return Violation{broken.rule, at, broken.message};
  }
}

}  // namespace lowtide
