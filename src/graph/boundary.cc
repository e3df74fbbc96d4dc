#include "graph/boundary.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "graph/extent.h"

namespace lowtide {
namespace {

/// Of the gradients without gaps that autograd copies to what the boundary hands on.
Bytes copied_gradient_bytes(const Graph& graph, const Op& boundary) {
  Bytes bytes = 0;
  for (TensorId id : boundary.outputs) {
    const Bytes elements = element_bytes(graph.tensor(id));
    if (extent_bytes(graph.tensor(id)) > elements) bytes += elements;
  }
  return bytes;
}

}  // namespace

bool is_foreign(const Tensor& tensor) {
  return tensor.kind == Kind::value && tensor.alias_of == kNone && tensor.bytes == 0 &&
         tensor.dtype.has_value() && std::ranges::find(tensor.shape, 0) == tensor.shape.end();
}

Bytes foreign_bytes(const Graph& graph) {
  Bytes bytes = 0;
  for (const Tensor& tensor : graph.tensors()) {
    if (is_foreign(tensor)) bytes += extent_bytes(tensor);
  }
  const OpId boundary = find_boundary(graph);
  if (boundary != kNone) bytes += copied_gradient_bytes(graph, graph.op(boundary));
  return bytes;
}

std::vector<bool> counted_results(const Graph& graph) {
  std::vector<bool> counted(static_cast<std::size_t>(graph.num_tensors()));
  const OpId boundary = find_boundary(graph);
  if (boundary == kNone) return counted;
  for (TensorId in : graph.op(boundary).inputs) {
    const TensorId storage = graph.storage(in);
    const Tensor& tensor = graph.tensor(storage);
    if (tensor.kind == Kind::value && tensor.bytes > 0) {
      counted[static_cast<std::size_t>(storage)] = true;
    }
  }
  return counted;
}

OpId find_boundary(const Graph& graph) {
  OpId boundary = kNone;
  for (OpId id = 0; id < graph.num_ops(); ++id) {
    if (!is_boundary(graph.op(id))) continue;
    if (boundary != kNone) {
      throw InputError(fmt::format("graph \"{}\" has two boundaries, ops {} and {}; a graph is run "
                                   "in at most two halves",
                                   graph.name(), boundary, id));
    }
    boundary = id;
  }
  return boundary;
}

}  // namespace lowtide
