#pragma once

#include "graph/graph.h"

namespace lowtide {

/// What a view only promises: PyTorch's `aten::_conj` and `aten::_neg_view` share the memory of
/// their input and mark the result, and the kernel that reads it computes with the conjugate or the
/// negative.
struct Marks {
  bool conjugate = false;
  bool negative = false;
  bool operator==(const Marks&) const = default;
};

Marks marks_of(const Graph& graph, TensorId id);

}  // namespace lowtide
