#pragma once

#include "slices/marks.h"

namespace lowtide::slices {

/// The graph with its batch norms in training written by sums over the rows, so that they run in
/// slices. The statistics stay those of the whole batch: each slice adds its part to a sum, and
/// once all have, each slice is normalized by itself.
Graph batch_norms_by_sums(const Graph& graph, const Marks& marks);

}  // namespace lowtide::slices
