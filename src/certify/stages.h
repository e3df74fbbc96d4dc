#pragma once

#include <vector>

#include "graph/graph.h"

namespace lowtide::certify {

/// What every plan of a graph does in any case, worked out for the checking of certificates.
///
/// A *stage* ends with the first run of its op. Every op that an output or an effect depends on has
/// one, in the graph's order, but for plain views, which may be made again wherever their storage
/// is. The last stage is the end of the sequence, where the graph's outputs are read.
struct Stages {
  std::vector<OpId> ops;             ///< per stage; Graph::num_ops() for the end
  std::vector<int> of_op;            ///< per op, and for Graph::num_ops(); kNone without a stage
  std::vector<std::vector<TensorId>> reads;  ///< per stage: storages of values, each once
  std::vector<std::vector<int>> readers;     ///< per storage: ascending, whose first runs read it
  /// Per stage: the last one in which its op may run again; kNone when it may not.
  std::vector<int> last_rerun;
  std::vector<Bytes> own_needs;      ///< per stage: `needs` without the values named there last
  /// Per stage: bytes in use while its op first runs in any plan, at least: residents, what it
  /// reads, makes and works in, less what it may write over, and values that it does not touch but
  /// that cannot be made again and are read later.
  std::vector<Bytes> needs;
  double cost = 0;                   ///< of all ops that an output or an effect depends on

  int end() const { return static_cast<int>(ops.size()) - 1; }
};

Stages stages_of(const Graph& graph);

/// Stages::needs, from all that comes before it there.
std::vector<Bytes> needs_of(const Graph& graph, const Stages& stages);

}  // namespace lowtide::certify
