#pragma once

#include <vector>

#include "remat/stage_graph.h"

namespace lowtide::strategy::layers {

/// The layers of a model, numbered in the order in which they first run.
struct ModelLayers {
  std::vector<int> of_stage;  ///< per forward stage; kNone for an op outside of all layers
  int count = 0;
};

/// By the names of the ops: "blocks.0.attn.softmax" and "blocks.0.norm" are in the layer
/// "blocks.0", the name up to its first number. Where names show fewer than two layers, they are
/// the parts between the articulation points of the forward pass; without those, sqrt(n) equal
/// parts of its n stages.
ModelLayers model_layers(const Graph& graph, const remat::StageGraph& stages, int forward_end);

}  // namespace lowtide::strategy::layers
