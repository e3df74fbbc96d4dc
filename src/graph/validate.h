#pragma once

#include "graph/graph.h"

namespace lowtide {

/// Throws InputError for the first rule of the format that `data` breaks, naming the op or tensor
/// by index and name. Rules: indices in range; no index twice where once is meant; sizes that are
/// not negative and whose sum does not overflow 63 bits; a view views a storage, not a view, and
/// owns no bytes; each value has exactly one producer, which comes before its readers (a cycle is
/// reported as such); costs are finite and not negative; in-place pairs and mutated positions
/// exist.
void validate(const GraphData& data);

}  // namespace lowtide
