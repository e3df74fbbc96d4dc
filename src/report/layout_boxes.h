#pragma once

#include <span>
#include <string>
#include <vector>

#include "layout/plan_buffers.h"
#include "report/layout_plot.h"

namespace lowtide::report {

/// What a plan holds, residents from address 0 on and the arena behind them. `needed` is what
/// buffers_of() gives for the plan, and the packing that of it.
std::vector<Box> boxes_of(const Graph& graph, const Plan& plan, const layout::PlanBuffers& needed,
                          const packing::Packing& packing);

/// Buffers of which only their lives are known: a life is short up to a sixteenth of the whole
/// time, medium up to a quarter.
std::vector<Box> boxes_of(std::span<const std::string> names,
                          const std::vector<packing::Buffer>& buffers,
                          const packing::Packing& packing);

}  // namespace lowtide::report
