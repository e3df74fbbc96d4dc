#pragma once

namespace lowtide::simulated {

/// Registers the device's kernels: the CPU's for each op that has one, over the same bytes, and our
/// own for what makes, views and copies tensors. To be called once.
void register_kernels();

}  // namespace lowtide::simulated
