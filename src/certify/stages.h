#pragma once

#include <vector>

#include "graph/graph.h"

namespace lowtide::certify {

/// Facts that hold for every plan of a graph, computed for the check of certificates.
///
/// A *stage* ends with the first run of its op. Every op that an output or an effect depends on has
/// a stage, in the graph's order, except plain views, which can be made again wherever their
/// storage is live. The last stage is the end of the sequence, where the graph's outputs are read.
struct Stages {
  std::vector<OpId> ops;   ///< per stage; Graph::num_ops() for the end
  std::vector<int> of_op;  ///< per op, and for Graph::num_ops(); kNone without a stage
  std::vector<std::vector<TensorId>> reads;  ///< per stage: storages of values, each once
  std::vector<std::vector<int>> readers;     ///< per storage: stages that first read it, ascending
  /// Per stage: the last stage in which its op may run again; kNone if none.
  std::vector<int> last_rerun;
  std::vector<Bytes> own_needs;  ///< per stage: `needs` without its last item
  /// Per stage: the least bytes in use in any plan while its op first runs: residents; its inputs,
  /// outputs and workspace, less the inputs that it may write over; and other values that cannot be
  /// made again and are read later.
  std::vector<Bytes> needs;
  double cost = 0;  ///< of all ops that an output or an effect depends on

  int end() const { return static_cast<int>(ops.size()) - 1; }
};

Stages stages_of(const Graph& graph);

/// Computes Stages::needs from the members declared before it.
std::vector<Bytes> needs_of(const Graph& graph, const Stages& stages);

}  // namespace lowtide::certify
