#pragma once

#include <fmt/format.h>

#include <utility>

#include "certify/check.h"

namespace lowtide::certify {

/// Ends a check at the first flaw. Only check.cc catches it.
template <typename... Args>
[[noreturn]] void refuse(Flaw flaw, fmt::format_string<Args...> format, Args&&... args) {
  throw Refused{flaw, fmt::format(format, std::forward<Args>(args)...)};
}

/// The text of an op and of a tensor in messages.
inline std::string op_text(const Graph& graph, OpId id) {
  return fmt::format("op {} (\"{}\")", id, graph.op(id).name);
}
inline std::string tensor_text(const Graph& graph, TensorId id) {
  return fmt::format("tensor {} (\"{}\")", id, graph.tensor(id).name);
}

}  // namespace lowtide::certify
