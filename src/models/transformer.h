#pragma once

#include "models/layers.h"

namespace lowtide::models::layers {

/// A pre-norm transformer block: x + attention(norm1 x), then x + mlp(norm2 x). Names as timm's.
struct TransformerBlock {
  std::int64_t heads = 1;
  Value masked_out = {};         ///< boolean (T, T), true where attention is forbidden; or empty
  double attention_dropout = 0;  ///< of the attention weights
  double hidden_dropout = 0;     ///< between the two maps of the mlp
  double dropout = 0;            ///< of the terms added to the residual stream
  bool gelu_tanh = false;
  double epsilon = 1e-5;
  ParameterInit residual_weight = {};  ///< of the maps that end in the residual stream
};
Value transformer_block(Value x, const TransformerBlock& block);

inline constexpr double kTransformerDeviation = 0.02;  ///< of every other weight

/// Throws InputError unless `heads` divides `width`.
void require_heads(const ModelOptions& options);

}  // namespace lowtide::models::layers
