#pragma once

namespace lowtide::fake_cuda {

/// Of cuDNN as PyTorch's wheels for CUDA bring it, 9.20: newer than what any choice asks for.
inline constexpr long kCudnnVersion = 92000;

/// Whether PyTorch's library for CUDA is in this process.
bool has_cuda_library();
/// Makes PyTorch's libraries believe in one CUDA device, with cuDNN unless the device is AMD's.
/// Returns whether they do: not when they have asked before.
bool install_hooks(bool is_amd);

}  // namespace lowtide::fake_cuda
