#pragma once

#include <span>
#include <vector>

#include "builder/builder.h"

namespace lowtide::autodiff {

/// The reverse sweep of gradient(), restricted to the ops from `begin` on. Earlier ops count as
/// constant, so these are partial derivatives when an earlier op makes one input from another. An
/// empty Value stands for a zero adjoint.
std::vector<Value> reverse_sweep(Builder& builder, OpId begin, std::span<const Value> outputs,
                                 std::span<const Value> inputs, std::span<const Value> seeds);

}  // namespace lowtide::autodiff
