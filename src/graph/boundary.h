#pragma once

#include <string_view>
#include <vector>

#include "graph/graph.h"

namespace lowtide {

/// The type of the op that divides a graph into two halves, as autograd runs them: the ops before
/// it run when the model is called, the ops after it when the gradients are asked for. In between
/// the caller's own code runs, so the op has no kernel: it reads the results of the model and
/// writes the tensors that the caller changes (Op::mutates); its outputs are the caller's
/// gradients.
///
/// Tensors that pass between the model and the caller lie in the caller's memory: results of the
/// first half and the boundary's outputs own 0 bytes of the plan, whatever their shape. A result
/// that the caller drops before the second half may own its bytes, so that plans count them while
/// it lives.
inline constexpr std::string_view kBoundary = "lowtide::boundary";

inline bool is_boundary(const Op& op) { return op.type == kBoundary; }

/// Whether the tensor is a value with elements in the caller's memory, owning no bytes.
bool is_foreign(const Tensor& tensor);

/// Bytes of all foreign values, in the caller's memory, with the gaps between their elements. A
/// gradient that the graph wants with gaps counts twice: autograd makes one without, and copies it.
Bytes foreign_bytes(const Graph& graph);

/// By tensor: whether it is a result that owns its bytes in the caller's memory
/// (graph/handed_out.h).
std::vector<bool> counted_results(const Graph& graph);

/// The boundary of the graph; kNone without one. Throws InputError for more than one.
OpId find_boundary(const Graph& graph);

}  // namespace lowtide
