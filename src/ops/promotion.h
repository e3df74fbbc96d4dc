#pragma once

#include <optional>
#include <span>

#include "ops/op_def.h"

/// PyTorch's rules for the element type of a result of mixed operands.
namespace lowtide::ops {

/// The smallest type that holds both.
DType promote(DType a, DType b);

/// The type of an element-by-element result: tensors with dimensions decide before those without,
/// and those before a plain number (its type as number_dtype gives it).
DType result_dtype(std::span<const TensorType> tensors, std::optional<DType> number = {});

/// The type that argument i of the call, a plain number, stands for.
DType number_dtype(const OpCall& call, std::size_t i);

/// Integers become f32 where a function has fractional values.
DType as_floating(DType dtype);

}  // namespace lowtide::ops
