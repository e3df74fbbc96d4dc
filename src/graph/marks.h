#pragma once

#include "graph/graph.h"

namespace lowtide {

/// Pending operations of a view: PyTorch's `aten::_conj` and `aten::_neg_view` share the memory of
/// their input and only mark the result; the kernel that reads it then computes with the conjugate
/// or the negative.
struct Marks {
  bool conjugate = false;
  bool negative = false;
  bool operator==(const Marks&) const = default;
};

Marks marks_of(const Graph& graph, TensorId id);

}  // namespace lowtide
