#pragma once

#include "graph/graph.h"

namespace lowtide {

/// Peak rates of a device for the roofline model (Williams, Waterman, Patterson, CACM 2009).
struct Device {
  double flops_per_second = 2e11;
  double bytes_per_second = 2e10;
  double seconds_per_op = 2e-6;  ///< dispatch
};

/// Microseconds of one execution: the larger of arithmetic and traffic, plus dispatch; 0.5 us for
/// a view. For what was not profiled.
double roofline_microseconds(const Graph& graph, OpId op, const Device& device = {});

/// Every cost replaced by the estimate and marked as such.
Graph roofline_priced(const Graph& graph, const Device& device = {});

}  // namespace lowtide
