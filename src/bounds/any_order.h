#pragma once

#include <span>
#include <vector>

#include "ordering/precedence.h"
#include "remat/stage_graph.h"

namespace lowtide::bounds {

/// Ops, by their stages in the graph's order. Each must first run before the next one in every
/// valid order.
using OpChain = std::vector<int>;

/// The chain with the largest sum of weights, which are not negative. Omits stages of weight 0.
OpChain heaviest_chain(const ordering::Precedence& precedence, std::span<const double> weights);

/// A relaxation of the graph for all valid orders: its plans in its order cost no more than the
/// plans of the real graph in any order, as long as memory counts only at the first runs of the
/// chain's ops and at the end.
///
/// The first runs of the chain's ops m1, m2, ... have this order in every plan; slot j lies between
/// mj and m(j+1). An op first runs after the chain ops that must come before it, and before those
/// that must come after it. Here it runs in its last possible slot: until then its outputs exist
/// for free, and earlier reruns of it are never needed. An op with several possible slots reads
/// nothing here, since its slot is unknown. Reruns need their inputs, and may be as late as in any
/// order. docs/explanation/bounds.md has the proof.
struct ChainedStages {
  remat::StageGraph graph;
  std::vector<bool> on_chain;  ///< per stage: whether its memory counts
};
ChainedStages along_chain(const remat::StageGraph& graph, const ordering::Precedence& precedence,
                          const OpChain& chain);

}  // namespace lowtide::bounds
