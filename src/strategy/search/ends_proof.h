#pragma once

#include <cstdint>
#include <span>

#include "remat/event_plan.h"
#include "strategy/search/proof.h"

namespace lowtide::strategy::search {

/// The same as prove(), by Checkmate's program with memory limited at first runs alone
/// (Formulation::ends), from the plan of these events on. Where its solution takes more inside some
/// stages, these are described too, which bounds `stages` plans alone. At most `nodes` branches of
/// HiGHS in each of few solves. Bounds 0 where Lowtide was built without HiGHS, or where the
/// program is large.
Proof prove_by_program(const PlanRequest& request, const remat::StageGraph& graph,
                       std::span<const remat::Event> events, double cost, std::int64_t nodes,
                       const Control& control);

}  // namespace lowtide::strategy::search
