#pragma once

#include <cstdint>
#include <span>

#include "remat/event_plan.h"
#include "strategy/search/proof.h"

namespace lowtide::strategy::search {

/// As prove(), by Checkmate's program with memory limited only at first runs (Formulation::ends),
/// from the plan of these events. If the solution needs too much inside some stages, the program
/// describes them too; its bound is then only for `stages` plans. At most `nodes` branches of HiGHS
/// in each of few solves. Bounds are 0 if Lowtide was built without HiGHS, or if the program is
/// large.
Proof prove_by_program(const PlanRequest& request, const remat::StageGraph& graph,
                       std::span<const remat::Event> events, double cost, std::int64_t nodes,
                       const Control& control);

}  // namespace lowtide::strategy::search
