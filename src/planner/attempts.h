#pragma once

#include "planner/planner.h"

namespace lowtide::planner {

/// A plan is good enough when it costs no more than this times the cost of a plan that might be
/// had.
inline constexpr double kGoodEnough = 1.0005;
/// Of a time limit: when this part is used up, it is too late to improve a plan.
inline constexpr double kLateShare = 0.9;

/// What one search for a plan is given.
struct Search {
  const Graph& graph;
  const strategy::Strategy& strategy;
  Bytes budget_bytes;
  Bytes reserved_bytes;               ///< see Planned
  bool for_smallest;                  ///< looks for the plan of the fewest bytes alone
  strategy::StrategyOptions options;  ///< complete
  double limit_seconds;               ///< that the user gave; a search may have a part of it
  std::vector<OpId> start = {};       ///< a plan to go on from; may be empty
};

/// Asks the strategy until a plan with addresses fits, or time or hope end. Only a search for the
/// plan of the fewest bytes then says why there is none.
Planned search_once(const Search& search, Control& control);

}  // namespace lowtide::planner
