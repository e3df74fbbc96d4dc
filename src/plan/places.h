#pragma once

#include <vector>

#include "plan/plan.h"

namespace lowtide {

/// The lanes of the places that the plan moves values to. Of no slower memory, copies take no time.
PlaceLanes lanes_of_places(const Plan& plan);

/// By tensor: the place that its copy lies in, if it has one.
std::vector<PlaceIndex> places_of_copies(const Graph& graph, const Plan& plan);

/// The bytes of slower memory that the plan takes of each place.
struct PlaceBytes {
  Bytes first = 0, second = 0;
};
PlaceBytes bytes_of_places(const SlowerMemory& slower);

/// For how long the lanes of each place have copies of the plan to do, in the cost unit of the
/// graph.
struct PlaceTimes {
  double first = 0, second = 0;
};
PlaceTimes times_of_copies(const Graph& graph, const Plan& plan);

}  // namespace lowtide
