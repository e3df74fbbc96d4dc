#pragma once

#include "graph/graph.h"

namespace lowtide {

/// Throws InputError for the first broken rule of the format, naming the op or tensor by index and
/// name. Rules: indices in range; no duplicates in lists of distinct indices; sizes are not
/// negative and sum to at most 2^53; a view has a storage as its base, not a view, and owns no
/// bytes; each value has exactly one producer, which comes before its readers (a cycle is reported
/// as such); costs are not negative and sum to at most 1e100; in-place pairs and mutated positions
/// exist.
void validate(const GraphData& data);

}  // namespace lowtide
