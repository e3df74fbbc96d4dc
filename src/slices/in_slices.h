#pragma once

#include <cstdint>

#include "graph/graph.h"

namespace lowtide::slices {

/// A training step whose ops run in so many slices of the batch, as far as they treat its rows
/// apart (docs/explanation/slices.md): gradients are added up slice by slice, batch norm takes the
/// statistics of the whole batch. With micro-batches, in so many slices of each. Residents keep
/// their order and their names; ops keep the scopes of their names. One slice is the graph itself.
/// Throws InputError for a graph with ops that no builder knows.
Graph in_slices(const Graph& graph, std::int64_t slices);

/// Throws InputError unless the rows of a batch, or of each micro-batch, give so many slices.
void check_slices(std::int64_t slices, std::int64_t batch, std::int64_t micro_batches);

}  // namespace lowtide::slices
