#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "plan/plan.h"

namespace lowtide {

/// The rules of a plan. Each can be broken in one named way.
enum class Rule : std::uint8_t {
  bad_index,            ///< an op, tensor or output position does not exist
  input_not_live,       ///< a run needs a tensor that is not live
  output_already_live,  ///< a run makes a tensor that is already live
  runs_twice,           ///< an op that may run once runs again
  effect_crosses,       ///< an op with an effect first runs in the half of the step that is not its
  stale_input,          ///< an op runs again after its input was overwritten
  bad_in_place,         ///< the graph does not allow this in-place write
  not_live,             ///< free, offload or view of a storage that is not live
  bad_prefetch,         ///< of a tensor that is live or was never offloaded
  bad_wait,             ///< for a storage without a copy under way
  copy_under_way,       ///< a storage ends, is read too early or is copied again before its wait
  bad_resident,         ///< what should lie in slower memory at the start is no resident
  old_copy,             ///< a resident's memory ends, and what an op wrote there is in no copy
  not_away,             ///< a resident of slower memory is in memory at the end
  missing_effect,       ///< an op with an effect never runs
  output_not_live,      ///< a graph output is missing at the end
  over_budget,          ///< the peak of live bytes exceeds the budget
  no_address,           ///< a storage or workspace with bytes has no offset
  negative_address,
  overlap,      ///< two live storages or workspaces, or two copies in slower memory, share bytes
  over_border,  ///< a storage or workspace crosses a border of two sections, or a copy that of
                ///< places
  arena_over_budget,
  place_over_budget,  ///< the copies in a place of slower memory need more than its budget
  wrong_claim  ///< the plan's own cost, peak, arena or slower memory differs from the replayed one
};

std::string_view name(Rule rule);

struct Violation {
  Rule rule;
  std::int32_t action;  ///< index into plan.actions; kNone for a rule of the whole plan
  std::string message;  ///< with the names of ops and tensors
};

/// Returns nothing when the plan is valid for the graph and within `budget` (default: the plan's
/// own). Shares no code with replay, lowering, layout or any strategy.
std::optional<Violation> verify(const Graph& graph, const Plan& plan,
                                std::optional<Bytes> budget = std::nullopt);

}  // namespace lowtide
