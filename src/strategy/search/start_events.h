#pragma once

#include <optional>
#include <vector>

#include "bounds/price_bound.h"
#include "remat/event_plan.h"

namespace lowtide::strategy::search {

/// The plan that a solution of the price bound describes, as reruns. Values are dropped where the
/// solution does not hold them; missing inputs of a run are made again right before it,
/// recursively. Ascending. Nothing when they would cost more than all ops once: that is too
/// expensive for a start.
std::optional<std::vector<remat::Event>> events_of(const remat::StageGraph& graph,
                                                   const bounds::PriceBound::Solution& solution);

/// The reruns of plans that keep only the values entering each of 2, 4, 8 ... equal segments of the
/// forward pass (Chen et al., 2016): on long recurrences no price of memory leads to them.
std::vector<std::vector<remat::Event>> segmentations(const remat::StageGraph& graph);

}  // namespace lowtide::strategy::search
