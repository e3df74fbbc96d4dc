#include "graph/boundary.h"

#include <fmt/format.h>

#include "base/error.h"

namespace lowtide {

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
