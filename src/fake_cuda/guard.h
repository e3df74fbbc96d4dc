#pragma once

namespace lowtide::fake_cuda {

/// Registers the device's guard with PyTorch.
void install_guard();

}  // namespace lowtide::fake_cuda
