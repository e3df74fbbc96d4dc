#pragma once

#include <span>
#include <vector>

#include "ordering/precedence.h"
#include "remat/stage_graph.h"

namespace lowtide::bounds {

/// Ops, by their stages in the graph's order, of which each must first run before the next in every
/// valid order.
using OpChain = std::vector<int>;

/// The heaviest chain: stages with weights, none negative. Stages of no weight are left out.
OpChain heaviest_chain(const ordering::Precedence& precedence, std::span<const double> weights);

/// The stages as every valid order has them: a graph whose plans in its order cost no more than
/// those of the real one in any order, as far as memory counts at the first runs of the chain's ops
/// and at the end alone.
///
/// The first runs of the chain's ops m1, m2, ... come in this order in every plan; between mj and
/// m(j+1) is slot j. An op runs first behind those of the chain that must come before it, and
/// before those that must come behind it. Here it runs in the last slot in which it may: so what it
/// makes is there for nothing until then, and reruns of it before that are never needed. An op that
/// may run first in several slots reads nothing here: who knows when. Running again takes what it
/// takes, and may be as late as in any order. docs/explanation/bounds.md has the proof.
struct ChainedStages {
  remat::StageGraph graph;
  std::vector<bool> on_chain;  ///< per stage: whether its memory counts
};
ChainedStages along_chain(const remat::StageGraph& graph, const ordering::Precedence& precedence,
                          const OpChain& chain);

}  // namespace lowtide::bounds
