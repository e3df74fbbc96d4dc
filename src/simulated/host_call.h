#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

namespace lowtide::simulated {

/// Runs the CPU's kernel of an op over the bytes of the device's tensors, as work of the current
/// stream. Random ops draw from the device's generator. What the kernel asks the CPU's allocator
/// for is memory of the device.
void run_on_host(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack);

}  // namespace lowtide::simulated
