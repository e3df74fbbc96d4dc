#pragma once

#include <span>

#include "base/control.h"
#include "offload/copies.h"
#include "offload/loads.h"
#include "offload/ways.h"

namespace lowtide::offload {

/// The ways of plans that move values to both places, where all goes to the second one at first.
Routes routes_of(const Slower& slower, const Graph& graph);

/// schedule() with slower memory of one place or of two. With two, copies are divided between them
/// in several ways: those that the plan waits for, those that come back the soonest, and a share of
/// all by the speed of the lanes lie in the first place, as far as its budget allows. The plan that
/// ends first is the answer; it is beyond the budget of a place only where all are.
Plan schedule_in_places(const Graph& graph, const LoadGraph& loads, const Plan& plan,
                        const Slower& slower, Bytes budget, std::span<const double> hurries,
                        const Control& control);

}  // namespace lowtide::offload
