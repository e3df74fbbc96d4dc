#pragma once

#include <optional>
#include <string>

#include "graph/graph.h"
#include "layout/plan_buffers.h"
#include "packing/csv.h"
#include "plan/plan.h"

namespace lowtide::cli {

/// The input of `lowtide layout`, as typed.
struct LayoutSource {
  std::string file;      ///< a CSV of buffers, or a graph
  std::string plan;      ///< a file with the graph's plan; or
  std::string strategy;  ///< the strategy to plan it with,
  std::string budget;    ///< within this budget; "": keep-all
  double seconds = 0;    ///< of planning; 0: no limit
  bool quiet = false;    ///< without progress
};

/// A plan whose buffers are to be packed.
struct PlanToPack {
  Graph graph;
  Plan plan;
  layout::PlanBuffers needed;
};

struct LayoutInput {
  packing::BufferTable table;
  std::optional<PlanToPack> of_plan;  ///< set if the buffers come from a plan, in its order
};

/// Reads buffers, or a graph and its plan; makes a plan when none is given. Throws InputError for a
/// plan that breaks a rule, InfeasibleError where none fits the budget.
LayoutInput read_layout_input(const LayoutSource& source);

}  // namespace lowtide::cli
