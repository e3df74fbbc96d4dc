#include "graph/permuted.h"

#include <utility>

namespace lowtide {

Graph permuted(const Graph& graph, std::span<const OpId> order) {
  GraphData data = graph.data();
  data.ops.clear();
  for (OpId id : order) data.ops.push_back(graph.op(id));
  return Graph(std::move(data));
}

}  // namespace lowtide
