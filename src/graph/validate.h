#pragma once

#include "graph/graph.h"

namespace lowtide {

/// Throws InputError for the first rule of the format that `data` breaks, naming the op or tensor
/// by index and name. Rules: indices in range; no index twice where once is meant; sizes that are
/// not negative and whose sum is at most 2^53; a view views a storage, not a view, and
/// owns no bytes; each value has exactly one producer, which comes before its readers (a cycle is
/// reported as such); costs are not negative and sum to at most 1e100; in-place pairs and mutated
/// positions exist.
void validate(const GraphData& data);

}  // namespace lowtide
