#pragma once

#include "estimate/transformer.h"
#include "graph/graph.h"
#include "parallel/cluster/cluster.h"

namespace lowtide::parallel {

/// How tensor-parallel ranks divide a transformer (Shoeybi et al., Megatron-LM, 2019): the first
/// product of attention and of the MLP by columns, the second by rows, the table of the tokens by
/// words. The ranks are on one node.
struct TensorSplit {
  int ranks = 1;
  /// Between the divided products, tokens are divided: sequence parallelism (Korthikanti et al.,
  /// Reducing activation recomputation in large transformer models, 2022).
  bool sequence = false;
};

/// One rank's part of a unit of a transformer, for one micro-batch of sizes.batch sequences. All
/// elements have the type training.compute; its other fields but drops_out and fused_attention do
/// not matter.
struct TransformerUnit {
  const estimate::TransformerSizes& sizes;
  const estimate::TransformerTraining& training;
  TensorSplit split;
  const Cluster& cluster;
  const cost::DeviceRates& device;
};

/// The forward and backward pass of one block as a graph of its ops, collective operations
/// included, with costs in microseconds by roofline and ring. It begins with an op that receives
/// the block's input and ends with one that sends the result on; the same for the gradient. The
/// gradients of weights are added to buffers that the graph does not have. For one rank its values
/// have the bytes that estimate::block_activations() counts.
Graph block_graph(const TransformerUnit& unit);
/// The same of the tables of tokens and positions.
Graph embedding_graph(const TransformerUnit& unit);
/// The same of the last normalization, the product with the table of the tokens, and the loss.
Graph head_graph(const TransformerUnit& unit);

/// Parameters of one rank, as numbers; those that ranks do not divide are whole on each.
std::int64_t block_parameters(const estimate::TransformerSizes& sizes, int tensor_ranks);
/// Of the table of the tokens, which embedding and head share.
std::int64_t table_parameters(const estimate::TransformerSizes& sizes, int tensor_ranks);
std::int64_t position_parameters(const estimate::TransformerSizes& sizes);
std::int64_t last_norm_parameters(const estimate::TransformerSizes& sizes);

}  // namespace lowtide::parallel
