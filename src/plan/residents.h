#pragma once

#include <vector>

#include "plan/plan.h"

namespace lowtide {

/// By tensor: whether it is a resident that lies in slower memory when a step begins and ends
/// (SlowerMemory::residents). Throws InputError for a plan that lists something else there.
std::vector<bool> residents_away(const Graph& graph, const Plan& plan);

/// The bytes of the other residents, which stay in memory.
Bytes staying_bytes(const Graph& graph, const Plan& plan);

}  // namespace lowtide
