#pragma once

#include <initializer_list>
#include <string_view>
#include <vector>

#include "builder/builder.h"

namespace lowtide {

/// Appends an op with one output to the graph of its first argument, a tensor.
inline Value apply(std::string_view type, const std::vector<CallArg>& args) {
  Builder& builder = std::get<Value>(args.front()).builder();
  return builder.call1(type, args);
}

/// Casts the operands of a function of several ops as autocast does (Builder::Autocast). The first
/// operand is a tensor.
inline void autocast(std::string_view function, std::initializer_list<Value*> operands) {
  (*operands.begin())->builder().autocast(function, {operands.begin(), operands.size()});
}

}  // namespace lowtide
