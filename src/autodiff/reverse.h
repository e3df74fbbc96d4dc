#pragma once

#include <span>
#include <vector>

#include "builder/builder.h"

namespace lowtide::autodiff {

/// The reverse sweep behind gradient(), over the ops from `begin` on only: whatever was appended
/// before `begin` counts as constant, so these are partial derivatives where one input was made
/// from another by earlier ops. An empty Value stands for an adjoint that is zero.
std::vector<Value> reverse_sweep(Builder& builder, OpId begin, std::span<const Value> outputs,
                                 std::span<const Value> inputs, std::span<const Value> seeds);

}  // namespace lowtide::autodiff
