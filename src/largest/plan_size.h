#pragma once

#include <exception>

#include "largest/largest_size.h"

namespace lowtide::largest {

/// A size that fits, its step and its plan.
struct PlannedSize {
  std::int64_t size = 0;
  Evidence evidence = Evidence::estimated;
  Graph graph;
  planner::Planned planned;
};

/// A trial, and what came of its planning.
struct PlannedTrial {
  Trial trial;
  planner::Planned planned;
  std::exception_ptr refusal;  ///< for the user, where it does not fit
  double used_seconds = 0;     ///< of the limit
};

/// InfeasibleError of a size that does not fit, for the user.
std::exception_ptr refusal(const Question& question, const Trial& trial);

/// Plans a step of a size: as `known` (null: none) does another, where that fits and takes no
/// longer than asked for, or else in `seconds` (0: no limit). Throws StoppedError when stopped
/// before a plan was found.
PlannedTrial plan_size(const Question& question, std::int64_t size, const Graph& graph,
                       Bytes reserved_bytes, const PlannedSize* known, double seconds);

}  // namespace lowtide::largest
