#pragma once

#include <optional>
#include <vector>

#include "bounds/price_bound.h"
#include "remat/event_plan.h"

namespace lowtide::strategy::search {

/// The reruns that a solution of the price bound asks for when it is taken as a plan: values are
/// dropped where it does not hold them, and what a run then lacks is made again right before it,
/// with all that this lacks in turn. Ascending. Nothing when they would cost more than all ops
/// once: that is no start.
std::optional<std::vector<remat::Event>> events_of(const remat::StageGraph& graph,
                                                   const bounds::PriceBound::Solution& solution);

/// The reruns of plans that keep what enters each of 2, 4, 8 ... equal segments of the forward pass
/// (Chen et al., 2016): on long recurrences no price of memory leads there.
std::vector<std::vector<remat::Event>> segmentations(const remat::StageGraph& graph);

}  // namespace lowtide::strategy::search
