#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "plan/plan.h"

namespace lowtide {

/// The rules of a plan. Each can be broken in one named way.
enum class Rule : std::uint8_t {
  bad_index,           ///< an op, tensor or output position that does not exist
  input_not_live,      ///< a run needs a tensor that is not there
  output_already_live, ///< a run makes a tensor that is there
  runs_twice,          ///< an op that may run once runs again
  stale_input,         ///< an op runs again after what it reads was overwritten
  bad_in_place,        ///< an in-place write that the graph does not allow
  not_live,            ///< free, offload of what is not there; a view of what is not there
  bad_prefetch,        ///< of what is live or was never offloaded
  missing_effect,      ///< an op with an effect never runs
  output_not_live,     ///< a graph output is missing at the end
  over_budget,         ///< the peak of live bytes exceeds the budget
  no_address,          ///< something that takes bytes has no offset
  negative_address,
  overlap,             ///< two live things share bytes
  over_border,         ///< something lies across a border of two sections
  arena_over_budget,
  wrong_claim          ///< the plan's own cost, peak or arena differs from the replayed one
};

std::string_view name(Rule rule);

struct Violation {
  Rule rule;
  std::int32_t action;  ///< index into plan.actions; kNone for a rule of the whole plan
  std::string message;  ///< with the names of ops and tensors
};

/// Nothing when the plan is valid for the graph and within `budget` (default: the plan's own).
/// Shares no code with replay, lowering, layout or any strategy.
std::optional<Violation> verify(const Graph& graph, const Plan& plan,
                                std::optional<Bytes> budget = std::nullopt);

}  // namespace lowtide
