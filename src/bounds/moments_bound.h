#pragma once

#include "base/control.h"
#include "certify/certificate.h"
#include "graph/graph.h"

namespace lowtide::bounds {

/// A bound by a few moments (bounds/moments_program.h): no plan costs less. Begins with those at
/// which memory is dearest in `certificate`, solves their program with HiGHS, and adds the moments
/// at which its plan exceeds the budget most, until that gains little. The bound is for the plans
/// of the certificate: those in the graph's order, or with a chain, all. `cost`: of a known plan; a
/// bound as high as this ends the work. 0, which says nothing, if `control` stops the first
/// program, or the graph is large, or Lowtide was built without HiGHS.
double moments_bound(const Graph& graph, const certify::Certificate& certificate, double cost,
                     const Control& control);

}  // namespace lowtide::bounds
