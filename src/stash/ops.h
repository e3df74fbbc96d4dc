#pragma once

namespace lowtide::stash {

/// Makes the ops of this folder known to PyTorch, as `lowtide::to_bits` and so on, once.
void register_ops();

}  // namespace lowtide::stash
