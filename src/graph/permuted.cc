#include "graph/permuted.h"

#include <utility>

namespace lowtide {

Graph permuted(const Graph& graph, std::span<const OpId> order) {
  GraphData data = graph.data();
  data.ops.clear();
  for (OpId id : order) data.ops.push_back(graph.op(id));
  return Graph(std::move(data));
}

std::vector<OpId> inverse(std::span<const OpId> order) {
  std::vector<OpId> result(order.size());
  for (std::size_t k = 0; k < order.size(); ++k) {
    result[static_cast<std::size_t>(order[k])] = static_cast<OpId>(k);
  }
  return result;
}

std::vector<OpId> mapped(std::span<const OpId> executions, std::span<const OpId> to) {
  std::vector<OpId> result;
  for (OpId id : executions) result.push_back(to[static_cast<std::size_t>(id)]);
  return result;
}

}  // namespace lowtide
