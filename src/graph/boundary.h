#pragma once

#include <string_view>
#include <vector>

#include "graph/graph.h"

namespace lowtide {

/// The type of the op that divides a graph run in two halves, as autograd runs them: what lies
/// before it is run when the model is called, what lies behind it when the gradients are asked for.
/// In between the caller's own code runs, so the op has no kernel: it reads what the model returned
/// and writes what the caller changes (Op::mutates), and its outputs are the gradients that the
/// caller gives.
///
/// What passes between the model and the caller lies in the caller's memory: results of the first
/// half and the boundary's outputs own 0 bytes of the plan's, whatever their shape says. A result
/// that the caller drops before the second half may own the bytes that it has, so that plans count
/// them while it lives.
inline constexpr std::string_view kBoundary = "lowtide::boundary";

inline bool is_boundary(const Op& op) { return op.type == kBoundary; }

/// Whether this is a value with elements that lies in the caller's memory and owns no bytes.
bool is_foreign(const Tensor& tensor);

/// What the elements of a tensor take.
Bytes element_bytes(const Tensor& tensor);
/// What the elements of all foreign values take of the caller's memory.
Bytes foreign_bytes(const Graph& graph);

/// By tensor: whether it is a result that owns the bytes that it has in the caller's memory
/// (graph/handed_out.h).
std::vector<bool> counted_results(const Graph& graph);

/// The boundary of the graph; kNone where it has none. Throws InputError for more than one.
OpId find_boundary(const Graph& graph);

}  // namespace lowtide
