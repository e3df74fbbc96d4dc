#pragma once

#include <vector>

#include "base/control.h"
#include "remat/event_plan.h"

namespace lowtide::strategy::search {

/// Plans of an executor within `limit` that evicts the values it needs last (Heuristic::ahead):
/// starts for budgets so small that whole chains of ops run again. Their own peak may differ from
/// the limit, since a value is held here until its last use.
std::vector<std::vector<remat::Event>> evictions(const remat::StageGraph& graph, Bytes limit,
                                                 const Control& control);

/// The same at ever smaller limits until the executor fails.
std::vector<std::vector<remat::Event>> smaller_evictions(const remat::StageGraph& graph,
                                                         const Control& control);

}  // namespace lowtide::strategy::search
