#pragma once

namespace lowtide::fake_cuda {

/// From now on torch.tensor(2., device="cuda"), and what else moves a real tensor to the device,
/// gives a tensor there without memory. Its numbers are nowhere: who reads them gets an error.
void install_constants();

}  // namespace lowtide::fake_cuda
