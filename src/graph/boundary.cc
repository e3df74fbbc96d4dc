#include "graph/boundary.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <numeric>

#include "base/error.h"

namespace lowtide {

bool is_foreign(const Tensor& tensor) {
  return tensor.kind == Kind::value && tensor.alias_of == kNone && tensor.bytes == 0 &&
         tensor.dtype.has_value() && std::ranges::find(tensor.shape, 0) == tensor.shape.end();
}

Bytes foreign_bytes(const Graph& graph) {
  Bytes bytes = 0;
  for (const Tensor& tensor : graph.tensors()) {
    if (!is_foreign(tensor)) continue;
    bytes += std::accumulate(tensor.shape.begin(), tensor.shape.end(),
                             element_bytes(*tensor.dtype), std::multiplies<>());
  }
  return bytes;
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
