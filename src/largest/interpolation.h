#pragma once

#include <span>

#include "graph/graph.h"

namespace lowtide::largest {

/// `graph` with the times and workspaces that its ops have at other sizes of the same step:
/// `measured` are graphs of the same structure (planner::same_structure) with those of one device,
/// at least one. Ops that are marked as estimates there count as not measured at that size.
///
/// Each op has a line through its times at the two nearest sizes, as a function of its work, which
/// is the roofline estimate without the launch. Beyond the sizes that were measured, the line's
/// slope is at least 0 and at most that of a line through the origin: so a time lies between one
/// that stays and one that grows as the work does. A time is taken to be at most that of more work,
/// as a busy machine makes times longer, and never shorter. Workspaces are lines in the bytes that
/// the op reads and writes, at least that of fewer bytes, and rounded up: the upper side, as too
/// little would let a step in that does not fit.
///
/// All costs are marked as estimates. Ops that were measured at no size keep the estimate that they
/// have.
/// Throws std::logic_error for graphs of another structure.
Graph interpolated(const Graph& graph, std::span<const Graph> measured);

/// How far an interpolated graph is from the same one measured; shares, 0.1 is 10% too much.
struct InterpolationError {
  double step = 0;  ///< of the time of keep-all
  /// Of single ops, signs left out: the error below which ops lie that take half of that time.
  double median_op = 0;
  double peak = 0;  ///< of keep-all's peak, workspaces included
};
InterpolationError interpolation_error(const Graph& interpolated, const Graph& measured);

}  // namespace lowtide::largest
