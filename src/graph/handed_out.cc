#include "graph/handed_out.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "base/error.h"
#include "graph/boundary.h"
#include "graph/extent.h"

namespace lowtide {
namespace {

/// Whether the op may read bytes of the storage after the boundary (a view op reads none).
bool may_read_behind(const Graph& graph, OpId id, OpId boundary, TensorId storage) {
  if (id == boundary || graph.is_view_op(id)) return false;
  if (id < boundary && !graph.op(id).recomputable) return false;
  return std::ranges::any_of(graph.op(id).inputs,
                             [&](TensorId in) { return graph.storage(in) == storage; });
}

bool is_droppable(const Graph& graph, OpId boundary, TensorId storage) {
  if (!is_foreign(graph.tensor(storage)) || graph.producer(storage) >= boundary) return false;
  for (OpId id = 0; id < graph.num_ops(); ++id) {
    if (may_read_behind(graph, id, boundary, storage)) return false;
  }
  return true;
}

}  // namespace

Graph with_after_bytes(const Graph& graph, Bytes bytes) {
  GraphData data = graph.data();
  data.after_bytes = bytes;
  return Graph(std::move(data));
}

Graph with_random_ops_kept(const Graph& graph) {
  GraphData data = graph.data();
  for (Op& op : data.ops) op.recomputable = op.recomputable && !op.random;
  return Graph(std::move(data));
}

std::vector<TensorId> droppable_results(const Graph& graph) {
  std::vector<TensorId> results;
  const OpId boundary = find_boundary(graph);
  if (boundary == kNone) return results;
  for (TensorId in : graph.op(boundary).inputs) {
    const TensorId storage = graph.storage(in);
    if (std::ranges::count(results, storage) == 0 && is_droppable(graph, boundary, storage)) {
      results.push_back(storage);
    }
  }
  return results;
}

Graph with_results_dropped(const Graph& graph, std::span<const TensorId> results) {
  const std::vector<TensorId> droppable = droppable_results(graph);
  GraphData data = graph.data();
  for (TensorId id : results) {
    if (std::ranges::count(droppable, id) == 0) {
      throw InputError(fmt::format("tensor {} of graph \"{}\" is no result that can be dropped "
                                   "before the second half: what runs there may read it",
                                   id, graph.name()));
    }
    Tensor& tensor = data.tensors[static_cast<std::size_t>(id)];
    tensor.bytes = extent_bytes(tensor);
  }
  std::erase_if(data.outputs,
                [&](TensorId out) { return std::ranges::count(results, graph.storage(out)) > 0; });
  return Graph(std::move(data));
}

}  // namespace lowtide
