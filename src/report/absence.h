#pragma once

#include <optional>
#include <vector>

#include "plan/plan.h"

namespace lowtide::report {

/// A value that a plan drops, makes again, and then reads; with the memory that other data left
/// free in the meantime.
struct Absence {
  TensorId value = kNone;
  Bytes bytes = 0;
  OpId last_used_in = kNone;  ///< the op that runs last before the value is dropped
  OpId back_for = kNone;      ///< the op that first reads the value made again
  OpId tightest = kNone;      ///< the op in between with the least memory left
  Bytes room = 0;             ///< bytes that this op leaves within the budget
};

/// Per op, for its outputs: the absence with the most bytes beyond the free memory; nothing when
/// all its outputs stay in memory. The budget is the plan's, or without one its peak. Throws
/// InputError when the plan breaks a rule. O(actions x log actions).
std::vector<std::optional<Absence>> absences(const Graph& graph, const Plan& plan);

}  // namespace lowtide::report
