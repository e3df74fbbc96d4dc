#pragma once

#include <cstdint>
#include <string_view>

#include "estimate/estimate.h"
#include "graph/dtype.h"

namespace lowtide::estimate {

/// The state that data-parallel ranks divide among them, as the stages 1 to 3 of ZeRO (Rajbhandari
/// et al., ZeRO: Memory optimizations toward training trillion parameter models, SC 2020). Each has
/// that of the stages before it.
enum class Shard : std::uint8_t { nothing, optimizer, gradients, parameters };

/// Reads "optimizer", "gradients", "parameters". Throws InputError for other texts.
Shard parse_shard(std::string_view text);

/// A decoder-only transformer by its sizes: learned positions, a head that shares the table of the
/// tokens, blocks of normalization, attention, normalization, and an MLP four times as wide, with
/// biases (Radford et al., 2019; models/gpt.cc). All sizes are at least 1; heads divide the width.
struct TransformerSizes {
  std::int64_t layers = 0, width = 0, heads = 0, vocabulary = 0;
  std::int64_t sequence = 0;  ///< tokens
  std::int64_t batch = 1;     ///< sequences on one rank
};

/// How it is trained.
struct TransformerTraining {
  DType compute = DType::f32;  ///< f32, bf16 or f16
  /// With bf16 and f16: parameters and gradients are of that type, beside a copy of the parameters
  /// in f32 with the optimizer's state, as ZeRO counts. Else as torch.autocast: parameters and
  /// gradients in f32, and copies of the weights in that type from forward to backward.
  bool master_copy = false;
  std::int64_t states = 2;  ///< numbers of f32 that the optimizer keeps for each parameter
  bool drops_out = true;
  bool fused_attention = false;  ///< without a matrix of scores in memory (Dao et al., 2022)
  /// Each block's input is kept, and the rest of it is computed again (Chen et al., 2016).
  bool checkpoints = false;
  std::int64_t ranks = 1;
  Shard shard = Shard::nothing;
};

/// The parameters, as a number: V h + s h + L (12 h^2 + 13 h) + 2 h.
std::int64_t count_parameters(const TransformerSizes& sizes);

/// Bytes that one block keeps of its forward pass: with t = batch x sequence and e bytes of an
/// element, t h (14 e + 2 r + 2) + batch heads sequence^2 (2 e + 1) + 16 t, where r are the bytes
/// of an element of the residual stream. For 16 bits throughout that is t h (34 + 5 a s / h) of
/// Korthikanti et al., Reducing activation recomputation in large transformer models, 2022, and the
/// statistics of the normalizations, 16 t.
Bytes block_activations(const TransformerSizes& sizes, const TransformerTraining& training);

/// The memory of one rank. Throws InputError for sizes and options that do not fit together.
/// Workspaces are not counted.
Estimate from_sizes(const TransformerSizes& sizes, const TransformerTraining& training);

}  // namespace lowtide::estimate
