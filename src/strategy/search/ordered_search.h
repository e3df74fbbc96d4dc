#pragma once

#include "strategy/search/local_search.h"

namespace lowtide::strategy::search {

/// local_search() in another order of the ops: `order` names every op once. The answer refers to
/// the original graph and has no lower bound, since the bound would hold only for the other order.
Decision ordered_search(const PlanRequest& request, std::span<const OpId> order,
                        const SearchEffort& effort);

/// Moves executions of an answer, reruns too, to positions where they need less memory, and
/// searches again in the new order of first runs; a few times, from the best so far. Returns the
/// best answer, which costs no more than `decision`, with its lower bound.
Decision resequenced(const PlanRequest& request, Decision decision, const SearchEffort& effort);

/// For an answer whose smallest plan exceeds the budget: moves the executions of that plan to
/// positions where they need less memory, and descends in the new order of first runs; again and
/// again, as long as the peak falls. The answer has a plan once the peak is within the budget.
Decision descended_in_other_orders(const PlanRequest& request, Decision decision);

}  // namespace lowtide::strategy::search
