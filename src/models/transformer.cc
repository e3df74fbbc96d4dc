#include "models/transformer.h"

#include <fmt/format.h>

#include <cmath>

#include "base/error.h"

namespace lowtide::models::layers {
namespace {

Value map_to(Value x, std::string_view name, std::int64_t width, const ParameterInit& weight) {
  return linear(x, name, {.width = width, .weight = weight, .bias = zeros()});
}

Value attention(Value x, const TransformerBlock& block) {
  Builder::Scope scope(x.builder(), "attn");
  const std::int64_t batch = x.size(0), length = x.size(1), width = x.size(2);
  const std::int64_t head_width = width / block.heads;
  Value qkv = map_to(x, "qkv", 3 * width, normal(kTransformerDeviation));
  qkv = reshape(qkv, {batch, length, 3, block.heads, head_width});
  const auto parts = unbind(permute(qkv, {2, 0, 3, 1, 4}), 0);  // each (B, H, T, head width)
  Value query = parts[0] * (1 / std::sqrt(static_cast<double>(head_width)));
  Value scores = matmul(query, transpose(parts[1], -2, -1));
  if (block.masked_out) scores = masked_fill(scores, block.masked_out, -INFINITY);
  Value weights = dropout(softmax(scores, -1), block.attention_dropout);
  Value mixed = reshape(transpose(matmul(weights, parts[2]), 1, 2), {batch, length, width});
  return dropout(map_to(mixed, "proj", width, block.residual_weight), block.dropout);
}

Value mlp(Value x, const TransformerBlock& block) {
  Builder::Scope scope(x.builder(), "mlp");
  const std::int64_t width = x.size(2);
  Value hidden = map_to(x, "fc1", 4 * width, normal(kTransformerDeviation));
  hidden = dropout(gelu(hidden, block.gelu_tanh), block.hidden_dropout);
  return dropout(map_to(hidden, "fc2", width, block.residual_weight), block.dropout);
}

}  // namespace

Value transformer_block(Value x, const TransformerBlock& block) {
  x = x + attention(layer_norm(x, "norm1", block.epsilon), block);
  return x + mlp(layer_norm(x, "norm2", block.epsilon), block);
}

void require_heads(const ModelOptions& options) {
  if (options.width % options.heads == 0) return;
  throw InputError(fmt::format("width {} is not divisible by {} heads: choose heads that divide it",
                               options.width, options.heads));
}

}  // namespace lowtide::models::layers
