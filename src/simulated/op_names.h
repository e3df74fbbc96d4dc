#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <string>
#include <vector>

namespace lowtide::simulated {

struct OpName {
  std::string base;  ///< "add"
  std::string full;  ///< "add.Tensor"
};

/// The framework's own ops that have a kernel for this key itself.
std::vector<OpName> aten_ops_with(c10::DispatchKey key);

/// The kernel that the framework's op ("add.Tensor") has for this key at the moment.
c10::SafeKernelFunction aten_kernel(const std::string& full_name, c10::DispatchKey key);

}  // namespace lowtide::simulated
