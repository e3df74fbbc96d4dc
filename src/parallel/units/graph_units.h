#pragma once

#include <functional>
#include <string>

#include "graph/graph.h"
#include "parallel/units/unit.h"

namespace lowtide::parallel {

/// A part of a training step.
struct StepPart {
  std::string name;  ///< of the layer of its first op; may be empty
  Graph graph;       ///< begins and ends with ops that receive and send values
  StateBytes state = {};
  double flops = 0;
  Bytes result_bytes = 0;  ///< that go to the next part
};

/// A training step as parts: those of the forward pass between the points that only one value
/// crosses and at which, by the names of its ops, a layer ends, each with the part of the backward
/// pass that belongs to it. The update is in none. An op that reads what a part made sends it on at
/// once, so that gradients of parameters are added to a buffer that the graph does not have.
struct CutStep {
  std::vector<StepPart> parts;
  StateBytes tied = {};  ///< of parameters that the first and the last part share
};

/// The names of the ops with which parts begin, without the first.
std::vector<std::string> part_begins(const Graph& step);

/// Throws InputError for a graph without a backward pass.
CutStep cut_step(const Graph& step, const std::vector<std::string>& begins);

/// A step of so many samples.
using StepOfSize = std::function<Graph(std::int64_t samples)>;

/// A model whose step `make` gives, for any number of samples or, where not `any_size`, for one,
/// which then stands for the batch that the graph has. Tensor parallelism is not possible. Costs
/// are estimated by the rates of the cluster's devices, or are those of the graph where `as_given`.
/// Throws as cut_step() does.
LayeredModel graph_units(const std::string& name, const StepOfSize& make, bool any_size,
                         bool as_given);

}  // namespace lowtide::parallel
