#include "graph/marks.h"

#include <algorithm>

namespace lowtide {
namespace {

/// The input that the view shows; none when the op makes the storage itself.
TensorId viewed_by(const Graph& graph, const Op& op, TensorId view) {
  const auto viewed = std::ranges::find(op.inputs, graph.storage(view),
                                        [&](TensorId in) { return graph.storage(in); });
  return viewed == op.inputs.end() ? kNone : *viewed;
}

}  // namespace

Marks marks_of(const Graph& graph, TensorId id) {
  Marks marks;
  while (id != kNone && graph.storage(id) != id) {
    const Op& op = graph.op(graph.producer(id));
    if (op.type == "aten::_conj") marks.conjugate = !marks.conjugate;
    if (op.type == "aten::_neg_view") marks.negative = !marks.negative;
    id = viewed_by(graph, op, id);
  }
  return marks;
}

}  // namespace lowtide
