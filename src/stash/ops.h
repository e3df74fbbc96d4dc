#pragma once

namespace lowtide::stash {

/// Makes the ops of this folder known to PyTorch, as `lowtide::pack_bits` and so on, once.
void register_ops();

}  // namespace lowtide::stash
