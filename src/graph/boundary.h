#pragma once

#include <string_view>

#include "graph/graph.h"

namespace lowtide {

/// The type of the op that divides a graph run in two halves, as autograd runs them: what lies
/// before it is run when the model is called, what lies behind it when the gradients are asked for.
/// In between the caller's own code runs, so the op has no kernel: it reads what the model returned
/// and writes what the caller changes (Op::mutates), and its outputs are the gradients that the
/// caller gives, in the caller's memory (0 bytes of their own).
inline constexpr std::string_view kBoundary = "lowtide::boundary";

inline bool is_boundary(const Op& op) { return op.type == kBoundary; }

/// The boundary of the graph; kNone where it has none. Throws InputError for more than one.
OpId find_boundary(const Graph& graph);

}  // namespace lowtide
