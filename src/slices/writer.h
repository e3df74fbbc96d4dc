#pragma once

#include <string>

#include "slices/marks.h"

namespace lowtide::slices {

/// The same step, whose ops that have a cut run once for each of so many slices. A backward pass
/// begins with the slice that the forward pass ended with.
Graph written(const Graph& graph, const Marks& marks, std::int64_t slices, std::string name);

}  // namespace lowtide::slices
