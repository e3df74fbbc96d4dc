#pragma once

#include <ATen/core/boxing/KernelFunction.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <cstdint>
#include <functional>
#include <utility>

namespace lowtide::simulated {

/// Runs an op that is made of others as the CPU makes it, forward and backward. For ops that choose
/// by the type of device which others they are made of. The memory of both passes is the device's.
/// A second derivative is refused. Tensors without bytes, as those that a tracer has, get another
/// kernel.
class WholeOnHost final : public c10::OperatorKernel {
 public:
  enum class When : std::uint8_t { always, gradients_in_other_layouts };

  using Kernel =
      std::function<void(const c10::OperatorHandle&, c10::DispatchKeySet, torch::jit::Stack*)>;

  /// `other`: of other calls. `when`: always, or where an argument needs gradients and one is not
  /// contiguous.
  WholeOnHost(Kernel other, When when) : other_(std::move(other)), when_(when) {}
  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet keys,
                  torch::jit::Stack* stack);

 private:
  Kernel other_;
  When when_;
};

}  // namespace lowtide::simulated
