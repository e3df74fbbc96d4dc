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

}  // namespace lowtide
