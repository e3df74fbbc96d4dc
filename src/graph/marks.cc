#include "graph/marks.h"

#include <algorithm>

namespace lowtide {
namespace {

/// The tensor that the op makes a view of.
TensorId viewed_by(const Graph& graph, const Op& op, TensorId view) {
  return *std::ranges::find(op.inputs, graph.storage(view),
                            [&](TensorId in) { return graph.storage(in); });
}

}  // namespace

Marks marks_of(const Graph& graph, TensorId id) {
  Marks marks;
  while (graph.storage(id) != id) {
    const Op& op = graph.op(graph.producer(id));
    if (op.type == "aten::_conj") marks.conjugate = !marks.conjugate;
    if (op.type == "aten::_neg_view") marks.negative = !marks.negative;
    id = viewed_by(graph, op, id);
  }
  return marks;
}

}  // namespace lowtide
