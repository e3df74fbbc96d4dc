#pragma once

#include <optional>
#include <span>

#include "ops/op_def.h"

/// PyTorch's rules for the element type of a result of mixed operands.
namespace lowtide::ops {

/// The smallest type that holds both.
DType promote(DType a, DType b);

/// The type of an element-by-element result: tensors with dimensions decide first, then tensors
/// without dimensions, then the plain number (`number` as number_dtype() gives it).
DType result_dtype(std::span<const TensorType> tensors, std::optional<DType> number = {});

/// The type of argument i of the call, a plain number.
DType number_dtype(const OpCall& call, std::size_t i);

/// f32 for integers, for functions with fractional values; else the same type.
DType as_floating(DType dtype);

}  // namespace lowtide::ops
