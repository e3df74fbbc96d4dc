#pragma once

#include <optional>
#include <vector>

#include "packing/packing.h"
#include "plan/plan.h"

namespace lowtide::offload {

/// The ways that copies of a plan take.
struct Routes {
  Lanes lanes;                             ///< of the first place
  std::optional<SecondPlace> second = {};  ///< where it begins does not matter here
  std::vector<PlaceIndex> places = {};     ///< by storage; empty: all in the first place

  PlaceIndex place_of(TensorId storage) const {
    return places.empty() ? PlaceIndex::first : places[static_cast<std::size_t>(storage)];
  }
  PlaceLanes all_lanes() const { return {lanes, second ? second->lanes : Lanes{}}; }
};

/// When slower memory holds a copy, in actions of the plan: from its first offload to the last wait
/// for it; of a resident that lies there, always.
struct CopyLife {
  TensorId storage = kNone;
  packing::Buffer life;
};
std::vector<CopyLife> lives_of_copies(const Graph& graph, const Plan& plan);

/// Gives every storage that the plan offloads its place in slower memory, and prices the plan.
Plan with_copies(const Graph& graph, Plan plan, const Routes& routes);

}  // namespace lowtide::offload
