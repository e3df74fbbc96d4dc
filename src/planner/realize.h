#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "packing/packing.h"
#include "planner/planner.h"

namespace lowtide::planner {

/// The steps from an order of executions to a verified plan with addresses.

/// With writes in place, without addresses. Counts its work.
Plan lower_in_place(const Graph& graph, std::span<const OpId> executions,
                    const Control& control = Control());

/// To get the arena within the budget, residents apart.
packing::PackingGoal packing_goal(const Graph& graph, Bytes budget, std::int64_t work);

/// With addresses within the budget, if such addresses are found.
Plan with_addresses(const Graph& graph, Plan plan, Bytes budget,
                    std::int64_t work = packing::kPackingWork, const Control& control = Control());

/// Throws std::logic_error when the verifier refuses the plan: then its strategy is wrong.
void require_valid(const Graph& graph, const Plan& plan);

/// An answer without a plan, with the figures of keep-all.
Planned nothing_planned(const Graph& graph, Bytes budget);

/// "1.50 GiB (1610612736 bytes)".
std::string in_full(Bytes bytes);

}  // namespace lowtide::planner
