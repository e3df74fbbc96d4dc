#pragma once

#include "base/control.h"
#include "packing/packing.h"
#include "plan/plan.h"

namespace lowtide::layout {

/// Addresses for every storage and workspace of a valid plan, after the residents. The goal's
/// capacity excludes residents. An output written in place keeps its input's address.
Layout assign_addresses(const Graph& graph, const Plan& plan, const packing::PackingGoal& goal = {},
                        const Control& control = Control());

}  // namespace lowtide::layout
