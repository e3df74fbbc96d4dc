#pragma once

#include <set>
#include <span>

#include "graph/graph.h"

namespace lowtide {

/// Bytes of the elements of a tensor.
Bytes element_bytes(const Tensor& tensor);

/// Bytes from the first element to the end of the last, gaps included.
Bytes extent_bytes(const Tensor& tensor);

/// The storages of tensors.
std::set<TensorId> storages_of(const Graph& graph, std::span<const TensorId> tensors);

/// Those of what an op reads and makes.
std::set<TensorId> storages_of(const Graph& graph, const Op& op);

/// Bytes of all that an op reads and makes.
Bytes touched_bytes(const Graph& graph, const Op& op);

}  // namespace lowtide
