#pragma once

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "device/device.h"
#include "device/present_gpu.h"
#include "simulated/backend.h"
#include "simulated/simulated_device.h"
#include "simulated/state.h"

namespace lowtide::device {

inline constexpr Bytes kSimulatedBytes = Bytes{64} << 20;

/// The simulated device of this process, which the first call installs.
inline const ComputeDevice& installed_simulated() {
  if (!simulated::is_installed()) {
    c10::register_privateuse1_backend("simulated");
    simulated::install({.bytes = kSimulatedBytes, .late = true, .seed = 1});
    add_device(simulated::simulated_device());
  }
  return simulated::simulated_device();
}

inline at::Generator default_generator(const ComputeDevice& device) {
  return at::globalContext().defaultGenerator(device.torch_device());
}

inline std::vector<std::string> device_types() {
  std::vector<std::string> types = {"cpu", "simulated"};
  if (has_gpu()) types.emplace_back("cuda");
  return types;
}

/// Tests of what any device has to do, run on each that this process has.
class OnEachDevice : public ::testing::TestWithParam<std::string> {
 protected:
  const ComputeDevice& device() const {
    return GetParam() == "simulated" ? installed_simulated() : device_of(at::Device(GetParam()));
  }
  /// The device that computes the same bits with less in between.
  const ComputeDevice& reference() const {
    return device().torch_device().is_privateuseone() ? cpu_device() : device();
  }
  at::TensorOptions options(at::ScalarType type = at::kFloat) const {
    return at::TensorOptions().device(device().torch_device()).dtype(type);
  }
  at::Tensor here(const at::Tensor& tensor) const { return tensor.to(device().torch_device()); }
  at::Generator generator() const { return default_generator(device()); }
};

}  // namespace lowtide::device

/// `Suite` is an OnEachDevice.
#define ON_EACH_DEVICE(Suite)                                                                     \
  INSTANTIATE_TEST_SUITE_P(Device, Suite, ::testing::ValuesIn(::lowtide::device::device_types()), \
                           [](const auto& type) { return type.param; })
