#pragma once

#include <span>
#include <string>
#include <vector>

#include "layout/plan_buffers.h"
#include "report/layout_plot.h"

namespace lowtide::report {

/// The memory of a plan: residents from address 0, then the arena. `needed` is the result of
/// buffers_of() for the plan, and `packing` a packing of it.
std::vector<Box> boxes_of(const Graph& graph, const Plan& plan, const layout::PlanBuffers& needed,
                          const packing::Packing& packing);

/// Buffers with known lives and nothing else: a life is short up to a sixteenth of the whole time,
/// medium up to a quarter.
std::vector<Box> boxes_of(std::span<const std::string> names,
                          const std::vector<packing::Buffer>& buffers,
                          const packing::Packing& packing);

}  // namespace lowtide::report
