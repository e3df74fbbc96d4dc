#pragma once

namespace lowtide::batch_norm {

/// Registers batch norm by cuDNN, which eager PyTorch runs on a GPU in many cases, as ops of
/// PyTorch "lowtide::cudnn_batch_norm...". They have the arguments of its own
/// "native_batch_norm...", which PyTorch traces instead and which round otherwise. cuDNN must need
/// no reserve between the passes.
void register_ops();

}  // namespace lowtide::batch_norm
