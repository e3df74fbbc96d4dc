#pragma once

#include <optional>
#include <vector>

#include "plan/plan.h"

namespace lowtide::report {

/// A value that a plan lets go, makes again, and then reads: the bytes that it takes while it is
/// away are needed there by others, or are not.
struct Absence {
  TensorId value = kNone;
  Bytes bytes = 0;
  OpId last_used_in = kNone;  ///< the op that runs last before it is let go
  OpId back_for = kNone;      ///< the op that reads it first when it is made again
  OpId tightest = kNone;      ///< of the ops that run meanwhile, the one that leaves least room
  Bytes room = 0;             ///< that it leaves within the budget
};

/// Per op, of what it makes: the absence with the most bytes above the room that there was for it;
/// nothing when all is there throughout. The budget is the plan's, or without one its peak. Throws
/// InputError when the plan breaks a rule. O(actions x log actions).
std::vector<std::optional<Absence>> absences(const Graph& graph, const Plan& plan);

}  // namespace lowtide::report
