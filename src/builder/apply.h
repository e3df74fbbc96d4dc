#pragma once

#include <string_view>
#include <vector>

#include "builder/builder.h"

namespace lowtide {

/// Appends an op with one output to the graph of its first argument, a tensor.
inline Value apply(std::string_view type, const std::vector<CallArg>& args) {
  Builder& builder = std::get<Value>(args.front()).builder();
  return builder.call1(type, args);
}

}  // namespace lowtide
