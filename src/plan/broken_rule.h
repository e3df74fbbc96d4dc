#pragma once

#include <fmt/format.h>

#include <string>
#include <utility>

#include "plan/verify.h"

namespace lowtide {

/// A rule that a plan breaks. Unwinds the stack to verify(), its only catcher.
struct BrokenRule {
  Rule rule;
  std::string message;
};

template <typename... Args>
[[noreturn]] void break_rule(Rule rule, fmt::format_string<Args...> format, Args&&... args) {
  throw BrokenRule{rule, fmt::format(format, std::forward<Args>(args)...)};
}

/// As messages name a tensor.
inline std::string text_of(const Graph& graph, TensorId id) {
  return fmt::format("tensor {} (\"{}\")", id, graph.tensor(id).name);
}

}  // namespace lowtide
