#pragma once

#include <c10/core/impl/DeviceGuardImplInterface.h>

namespace lowtide::simulated {

/// The framework's streams and events of the device.
const c10::impl::DeviceGuardImplInterface& guard();

}  // namespace lowtide::simulated
