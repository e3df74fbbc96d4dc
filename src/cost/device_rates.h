#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "graph/dtype.h"

namespace lowtide::cost {

/// A device as its data sheet describes it: one entry of devices.json.
struct DeviceRates {
  std::string name;   ///< "h100"
  std::string title;  ///< "NVIDIA H100 SXM 80GB"
  std::string maker;  ///< "NVIDIA" or "AMD"; of GPUs alone
  std::map<DType, double> flops_per_second;
  double bytes_per_second = 0;
  double seconds_per_op = 0;                           ///< dispatch, or the launch of a kernel
  double seconds_per_view = 0;                         ///< moves no bytes
  Bytes memory_bytes = 0;                              ///< 0: of the machine at hand
  std::optional<std::pair<int, int>> cuda_capability;  ///< as PyTorch reports it; GPUs alone

  /// The rate of this dtype; of complex numbers that of their parts, and of f32 where the device
  /// has no rate of its own.
  double flops(DType dtype) const;
};

/// All of devices.json, in its order.
const std::vector<DeviceRates>& known_devices();
/// Throws InputError that lists the known names.
const DeviceRates& find_device(std::string_view name);
/// A few cores of a server: what costs are estimated by when no device is named.
const DeviceRates& default_rates();

}  // namespace lowtide::cost
