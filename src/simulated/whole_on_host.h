#pragma once

#include <ATen/core/boxing/KernelFunction.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <cstdint>
#include <utility>

namespace lowtide::simulated {

/// Runs an op that is made of others as the CPU makes it, forward and backward. For ops that choose
/// by the type of device which others they are made of. The memory of both passes is the device's.
/// A second derivative is refused. Tensors without bytes, as those that a tracer has, get the
/// framework's own kernel.
class WholeOnHost final : public c10::OperatorKernel {
 public:
  enum class When : std::uint8_t { always, gradients_in_other_layouts };

  /// `own`: the framework's kernel. `when`: always, or where an argument needs gradients and one is
  /// not contiguous.
  WholeOnHost(c10::SafeKernelFunction own, When when) : own_(std::move(own)), when_(when) {}
  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet keys,
                  torch::jit::Stack* stack);

 private:
  c10::SafeKernelFunction own_;
  When when_;
};

}  // namespace lowtide::simulated
