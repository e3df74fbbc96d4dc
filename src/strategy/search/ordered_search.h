#pragma once

#include "strategy/search/local_search.h"

namespace lowtide::strategy::search {

/// local_search() in another order of the ops: `order` names every op once. The answer is about the
/// graph as it is, and has no lower bound: that would be about the other order alone.
Decision ordered_search(const PlanRequest& request, std::span<const OpId> order,
                        const SearchEffort& effort);

/// Moves executions of an answer, reruns too, to where they need less memory, and searches on from
/// there in the order of first runs that comes out; a few times, from the best so far. Returns the
/// best, which costs no more than `decision`, with its lower bound.
Decision resequenced(const PlanRequest& request, Decision decision, const SearchEffort& effort);

}  // namespace lowtide::strategy::search
