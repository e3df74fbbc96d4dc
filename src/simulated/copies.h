#pragma once

#include <ATen/core/Tensor.h>

namespace lowtide::simulated {

/// Copies within the device, or between the device and the CPU, as work of the current stream.
/// Returns `to`. As on CUDA, the caller does not wait for a copy within the device, and with
/// `non_blocking` it waits neither for a copy to the device nor for one to pinned memory. A copy
/// from memory that is not pinned has read it when the call returns.
at::Tensor copy_from(const at::Tensor& from, const at::Tensor& to, bool non_blocking);
at::Tensor copy_from_and_resize(const at::Tensor& from, const at::Tensor& to);

}  // namespace lowtide::simulated
