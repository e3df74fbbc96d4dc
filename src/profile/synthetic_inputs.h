#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "device/device.h"
#include "graph/graph.h"

namespace lowtide::profile {

/// Bytes of the op's inputs when each distinct tensor, views included, has its own memory at a
/// multiple of `alignment`.
Bytes synthetic_bytes(const Graph& graph, const Op& op, Bytes alignment);

/// Plausible values for the inputs of an op, stored from `data` on: reals in [0.1, 1), random
/// booleans, masks that choose as much as they may, valid indices, sizes of groups that come to
/// what is divided, ones for integer divisors, else zero integers. Deterministic; does not use the
/// global generator.
std::vector<at::Tensor> synthetic_inputs(const Graph& graph, const Op& op, std::byte* data,
                                         const device::ComputeDevice& device);

}  // namespace lowtide::profile
