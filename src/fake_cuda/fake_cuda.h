#pragma once

namespace lowtide::fake_cuda {

/// "9.0" of an H100, as torch.cuda.get_device_capability() has it.
struct Capability {
  int major = 0, minor = 0;
};

/// Lets a PyTorch without CUDA trace programs for one CUDA device, cuda:0, whose tensors have no
/// memory: fake tensors of that device get forward and backward passes, and attention the kernels
/// that PyTorch chooses on a device of this capability. Nothing can be computed there. Lasts until
/// the process ends.
///
/// To be called before anything asks PyTorch for CUDA; importing the Python package torch does.
/// Throws InputError when that was before, or when this PyTorch has CUDA itself.
void install(Capability capability, bool is_amd);

}  // namespace lowtide::fake_cuda
