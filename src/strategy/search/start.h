#pragma once

#include <optional>
#include <vector>

#include "strategy/bound/price_bound.h"
#include "strategy/search/event_plan.h"

namespace lowtide {

/// The reruns that a solution of the price bound asks for when it is taken as a plan: values are
/// dropped where it does not hold them, and what a run then lacks is made again right before it,
/// with all that this lacks in turn. Ascending. Nothing when they would cost more than all ops once: that is no start.
std::optional<std::vector<Event>> events_of(const StageGraph& graph,
                                            const PriceBound::Solution& solution);

}  // namespace lowtide
