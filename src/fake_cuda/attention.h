#pragma once

#include "fake_cuda/fake_cuda.h"

namespace lowtide::fake_cuda {

/// From now on torch.nn.functional.scaled_dot_product_attention takes, for tensors of the fake
/// device, the kernel that PyTorch takes on a device of this capability.
void install_attention(Capability capability, bool is_amd);

}  // namespace lowtide::fake_cuda
