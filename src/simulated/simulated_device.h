#pragma once

#include "device/device.h"

namespace lowtide::simulated {

/// The installed device for the executor and the profiler. Throws Error when none is installed.
const device::ComputeDevice& simulated_device();

}  // namespace lowtide::simulated
