#pragma once

#include "graph/graph.h"

namespace lowtide::bench {

/// A deeper network of the same kind: the forward passes of `copies` copies of a training graph one
/// after the other, then their backward passes in reverse order. What precedes the first backward
/// op is the forward pass. Each copy has residents of its own. The last value of a copy's forward
/// pass is read by the first op of the next copy, and the last of its backward pass by the first
/// backward op of the copy before it. The result can be planned, not executed.
Graph repeated(const Graph& graph, int copies);

}  // namespace lowtide::bench
