#pragma once

#include <vector>

#include "certify/stages.h"

namespace lowtide::certify {

/// The stages as every valid order has them, by ops of which each must first run before the next:
/// what the bound of a certificate for any order is worked out on (docs/explanation/certificates.md).
///
/// An op stands in the last place that it may have among those of the chain. What it reads when it
/// first runs counts only where that is the only place; what running it again reads always does.
/// Memory may have a price at the ops of the chain and at the end alone. Throws Refused (bad_chain)
/// where an op of the chain need not run before the next. O(graph).
struct ChainedStages {
  Stages stages;
  std::vector<bool> on_chain;  ///< per stage; the end is
};
ChainedStages stages_along(const Graph& graph, const Stages& stages,
                           const std::vector<OpId>& chain);

}  // namespace lowtide::certify
