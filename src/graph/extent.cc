#include "graph/extent.h"

#include <algorithm>
#include <functional>
#include <numeric>

namespace lowtide {

Bytes element_bytes(const Tensor& tensor) {
  if (std::ranges::count(tensor.shape, 0) > 0) return 0;  // the other sizes may be anything
  return std::accumulate(tensor.shape.begin(), tensor.shape.end(),
                         Bytes{element_bytes(*tensor.dtype)}, std::multiplies<>());
}

Bytes extent_bytes(const Tensor& tensor) {
  const Bytes elements = element_bytes(tensor);
  if (tensor.strides.empty() || elements == 0) return elements;
  std::int64_t last = 0;
  for (std::size_t d = 0; d < tensor.strides.size(); ++d) {
    last += (tensor.shape[d] - 1) * tensor.strides[d];
  }
  return (last + 1) * element_bytes(tensor.dtype.value());
}

std::set<TensorId> storages_of(const Graph& graph, std::span<const TensorId> tensors) {
  std::set<TensorId> storages;
  for (TensorId id : tensors) storages.insert(graph.storage(id));
  return storages;
}

std::set<TensorId> storages_of(const Graph& graph, const Op& op) {
  std::set<TensorId> storages = storages_of(graph, op.inputs);
  storages.merge(storages_of(graph, op.outputs));
  return storages;
}

Bytes touched_bytes(const Graph& graph, const Op& op) {
  Bytes bytes = 0;
  for (TensorId id : storages_of(graph, op)) bytes += graph.tensor(id).bytes;
  return bytes;
}

}  // namespace lowtide
