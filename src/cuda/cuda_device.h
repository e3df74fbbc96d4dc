#pragma once

#include <string>

#include "device/device.h"

namespace lowtide::cuda {

/// A GPU for the executor and the profiler. `model`: what its name begins with, such as "NVIDIA
/// H100 80GB HBM3, CUDA 13.0". Always the same object for one index. Throws InputError that says
/// what to do where plans cannot be run on GPUs: LibTorch without CUDA, or with another allocator
/// than its own.
const device::ComputeDevice& cuda_device(c10::DeviceIndex index, const std::string& model);

}  // namespace lowtide::cuda
