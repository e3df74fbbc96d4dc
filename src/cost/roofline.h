#pragma once

#include <optional>
#include <span>
#include <string>

#include "cost/device_rates.h"
#include "graph/graph.h"

namespace lowtide::cost {

/// What one execution of an op asks of a device.
struct Work {
  double flops = 0;
  double bytes = 0;  ///< read and written
  DType dtype = DType::f32;
};

/// The roofline model (Williams, Waterman, Patterson, CACM 2009): the larger of arithmetic and
/// traffic, plus the launch.
double roofline_microseconds(const Work& work, const DeviceRates& rates);
/// An op that makes views alone.
double view_microseconds(const DeviceRates& rates);

/// The arithmetic of one execution: as the op library counts it, or else one operation per output
/// element.
double counted_flops(const Graph& graph, const Op& op);

/// The dtype whose rate the arithmetic of an op has: that of its first input with a fraction, or
/// else output; f32 for other ops.
DType arithmetic_dtype(const Graph& graph, const Op& op);

/// One execution, for ops that were not profiled. Without `flops` the op library counts the
/// arithmetic of ops that it knows; other ops count as one operation per output element.
double roofline_microseconds(const Graph& graph, OpId op, const DeviceRates& rates,
                             std::optional<double> flops = std::nullopt);

/// Every cost replaced by the estimate and marked as such; a boundary costs nothing. A device that
/// is not the default one is named as where they come from. `flops`: the arithmetic of each op as
/// far as the caller knows better; none or one for each op.
Graph roofline_priced(const Graph& graph, const DeviceRates& rates = default_rates(),
                      std::span<const std::optional<double>> flops = {});

/// GraphData::device of costs that are estimated by a device's data sheet.
std::string like(const DeviceRates& rates);

/// Where the costs of a graph come from, for people: "measured on AMD EPYC (AVX2), 2 threads",
/// "estimates, like NVIDIA H100 SXM 80GB", or both; "given with the graph" when it does not say.
std::string cost_origin(const Graph& graph);

}  // namespace lowtide::cost
