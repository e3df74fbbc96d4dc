#pragma once

#include <ATen/core/Generator.h>

namespace lowtide::simulated {

/// Draws the numbers that a CPU generator with the same seed draws.
at::Generator make_generator();
const at::Generator& default_generator();

bool is_device_generator(const at::Generator& generator);
/// The CPU generator that a generator of the device draws from.
at::Generator host_generator(const at::Generator& generator);

/// While it lives, CPU kernels that draw from the default CPU generator draw from the device's.
/// Other threads must not draw meanwhile.
class DeviceDraws {
 public:
  DeviceDraws();
  ~DeviceDraws();
  DeviceDraws(const DeviceDraws&) = delete;
  DeviceDraws& operator=(const DeviceDraws&) = delete;
};

}  // namespace lowtide::simulated
