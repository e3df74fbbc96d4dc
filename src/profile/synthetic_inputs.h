#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "device/device.h"
#include "graph/graph.h"

namespace lowtide::profile {

/// Bytes that the op's inputs take when each distinct tensor lies by itself, views included.
Bytes synthetic_bytes(const Graph& graph, const Op& op);

/// Plausible values for the inputs of an op, laid out from `data` on: reals in [0.1, 1), random
/// booleans, indices that are valid where they are used as such, ones for integers that divide,
/// else zero integers. Deterministic; leaves the global generator alone.
std::vector<at::Tensor> synthetic_inputs(const Graph& graph, const Op& op, std::byte* data,
                                         c10::Device device);

}  // namespace lowtide::profile
