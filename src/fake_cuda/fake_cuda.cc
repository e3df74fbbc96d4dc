#include "fake_cuda/fake_cuda.h"

#include "base/error.h"
#include "fake_cuda/attention.h"
#include "fake_cuda/constants.h"
#include "fake_cuda/guard.h"
#include "fake_cuda/hooks.h"

namespace lowtide::fake_cuda {

void install(Capability capability, bool is_amd) {
  if (has_cuda_library()) {
    throw InputError("this PyTorch has CUDA, so that no device can be put in place of its own");
  }
  if (!install_hooks(is_amd)) {
    throw InputError("PyTorch was asked for CUDA before, as `import torch` does, and takes no "
                     "device from then on");
  }
  install_guard();
  install_attention(capability, is_amd);
  install_constants();
}

}  // namespace lowtide::fake_cuda
