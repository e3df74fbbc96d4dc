#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

namespace lowtide::simulated {

/// Runs an op that is made of others as the CPU makes it, forward and backward. For ops that choose
/// by the type of device which others they are made of. The memory of both passes is the device's.
/// A second derivative is refused.
void run_whole_on_host(const c10::OperatorHandle& op, c10::DispatchKeySet keys,
                       torch::jit::Stack* stack);

}  // namespace lowtide::simulated
