#pragma once

#include <vector>

#include "certify/certificate.h"
#include "graph/graph.h"

namespace lowtide::certify {

/// A problem without slower memory. Each plan of a graph that may move values gives a plan of it
/// that costs no more in weights, but for the first run of each load
/// (docs/explanation/certificates.md#values-that-move).
struct Relaxed {
  Graph graph;
  std::vector<OpId> loads;  ///< its ops that the given graph does not have
};

/// Every value with bytes gets an op that makes it from nothing, for the cheaper of a copy back and
/// its share of a rerun, in the weights of `moves`. Tensors keep their ids.
Relaxed relaxed(const Graph& graph, const Certificate::Moves& moves);

}  // namespace lowtide::certify
