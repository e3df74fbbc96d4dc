#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "parallel/cluster/cluster.h"
#include "parallel/units/transformer_graphs.h"
#include "parallel/units/unit_plans.h"

namespace lowtide::parallel {

/// Bytes of what a rank has of a model between micro-batches, before data-parallel ranks divide it.
struct StateBytes {
  Bytes parameters = 0, gradients = 0, optimizer = 0;
  Bytes others = 0;  ///< buffers, constants and the batch, which no ranks divide

  Bytes all() const { return parameters + gradients + optimizer + others; }
  StateBytes& operator+=(const StateBytes& other);
  StateBytes& operator-=(const StateBytes& other);
};

/// A part of a model that one stage of a pipeline has as a whole, such as a block of a transformer:
/// the part of one tensor-parallel rank, for one micro-batch.
struct Unit {
  std::string name;
  StateBytes state;
  /// Of the state, what the model's first and last unit share: one stage with both has it once, and
  /// two stages add up its gradient.
  StateBytes tied = {};
  double flops = 0;        ///< of forward and backward pass, without reruns
  Bytes result_bytes = 0;  ///< that go to the next unit, and as a gradient come back from it
  std::vector<UnitPlan> plans;
};

/// For which a model gives its units.
struct UnitRequest {
  TensorSplit split;
  std::int64_t micro_batch = 1;
  const Cluster& cluster;
  const cost::DeviceRates& device;
};

/// A model as a chain of units. Units of one kind are alike.
struct LayeredModel {
  std::string name;
  std::vector<std::string> kinds;            ///< names of the kinds of units
  std::vector<int> sequence;                 ///< the kind of each unit, first to last
  DType compute = DType::f32;                ///< of its products
  double flops_per_sample = 0;               ///< of forward and backward pass, without reruns
  StateBytes state = {};                     ///< of the whole model
  std::function<bool(int ranks)> can_split;  ///< among tensor-parallel ranks
  std::function<bool(std::int64_t micro_batch)> can_take;      ///< whether it exists of that size
  std::function<std::vector<Unit>(const UnitRequest&)> units;  ///< by kind
  /// The whole step of so many samples as a graph, the update included, where there is one.
  std::function<Graph(std::int64_t samples, const cost::DeviceRates&)> whole_step = {};
};

}  // namespace lowtide::parallel
