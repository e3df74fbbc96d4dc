#pragma once

#include <optional>
#include <string>

#include "graph/graph.h"
#include "layout/plan_buffers.h"
#include "packing/csv.h"
#include "plan/plan.h"

namespace lowtide::cli {

/// What `lowtide layout` is asked to pack, as typed.
struct LayoutSource {
  std::string file;      ///< a CSV of buffers, or a graph
  std::string plan;      ///< of the graph: a file; or
  std::string strategy;  ///< how to plan it
  std::string budget;    ///< and within what; "": keep-all
  double seconds = 0;    ///< of planning; 0: no limit
};

/// A plan whose buffers are to be packed.
struct PlanToPack {
  Graph graph;
  Plan plan;
  layout::PlanBuffers needed;
};

struct LayoutInput {
  packing::BufferTable table;
  std::optional<PlanToPack> of_plan;  ///< when the buffers are those of a plan, in its order
};

/// Reads buffers, or a graph and the plan of it, which is made when there is none. Throws
/// InputError for a plan that breaks a rule, InfeasibleError where none fits the budget.
LayoutInput read_layout_input(const LayoutSource& source);

}  // namespace lowtide::cli
