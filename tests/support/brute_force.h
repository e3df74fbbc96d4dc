#pragma once

#include <limits>
#include <vector>

#include "remat/event_plan.h"

namespace lowtide::testing {

inline constexpr double kNever = std::numeric_limits<double>::infinity();

/// One set of reruns, as a plan.
struct Candidate {
  double cost;
  Bytes peak;           ///< without writes in place
  Bytes in_place_peak;  ///< with writes in place, as strategies count it
};

/// Every rerun that some plan may have.
std::vector<remat::Event> allowed_events(const remat::StageGraph& graph);

/// All subsets of `events`, the empty one first. 2^events plans.
std::vector<Candidate> all_plans(const Graph& graph, const remat::StageGraph& stages,
                                 const std::vector<remat::Event>& events);

/// The least cost of plans whose peak (by the given member) is within the budget; else kNever.
double least_cost(const std::vector<Candidate>& plans, Bytes Candidate::*peak, Bytes budget);

}  // namespace lowtide::testing
