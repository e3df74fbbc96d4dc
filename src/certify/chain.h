#pragma once

#include <vector>

#include "certify/stages.h"

namespace lowtide::certify {

/// The stages that hold in every valid order, found with a chain of ops: each must first run before
/// the next. The bound for any order is computed on them (docs/explanation/certificates.md).
///
/// Each op gets its last possible place among the ops of the chain. Inputs of its first run count
/// only when this is its only place; inputs of reruns always count. Only the ops of the chain and
/// the end may have a price. Throws Refused (bad_chain) when an op of the chain need not run before
/// the next. O(graph).
struct ChainedStages {
  Stages stages;
  std::vector<bool> on_chain;  ///< per stage; true for the end
};
ChainedStages stages_along(const Graph& graph, const Stages& stages,
                           const std::vector<OpId>& chain);

}  // namespace lowtide::certify
