#pragma once

#include "graph/graph.h"

namespace lowtide::cost {

/// Peak rates of a device for the roofline model (Williams, Waterman, Patterson, CACM 2009). The
/// defaults are those of a few cores of a server.
struct DeviceRates {
  double flops_per_second = 2e11;
  double bytes_per_second = 2e10;
  double seconds_per_op = 2e-6;    ///< dispatch
  double seconds_per_view = 5e-7;  ///< moves no bytes
};

/// Microseconds of one execution, for ops that were not profiled: the larger of arithmetic and
/// traffic, plus dispatch. The op library counts the arithmetic of ops that it knows; other ops
/// count as one operation per output element.
double roofline_microseconds(const Graph& graph, OpId op, const DeviceRates& rates = {});

/// Every cost replaced by the estimate and marked as such.
Graph roofline_priced(const Graph& graph, const DeviceRates& rates = {});

}  // namespace lowtide::cost
