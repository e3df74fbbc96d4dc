#pragma once

#include <string_view>

#include "graph/dtype.h"

namespace lowtide::models {

/// How a step computes, and what it stores (docs/explanation/mixed-precision.md). Parameters are
/// f32 in any case, and the arithmetic of an update is.
struct Precision {
  DType compute = DType::f32;        ///< bf16 and f16: the lower precision of autocast
  double loss_scale = 65536;         ///< of the first step; f16 only
  DType gradient_type = DType::f32;  ///< in which gradients are held: f32 or bf16
  DType state_type = DType::f32;     ///< of momentum and moments between two steps: f32 or bf16
};

inline constexpr std::string_view kGradientType = "the type of gradients";
inline constexpr std::string_view kStateType = "the type of the optimizer's state";

/// Reads "f32", "bf16" and "fp16". Throws InputError for other texts.
DType parse_precision(std::string_view text);
/// The text that parse_precision() reads.
std::string_view precision_name(DType compute);
/// Reads "f32" and "bf16". Throws InputError for other texts; `what` is one of the names below.
DType parse_stored_type(std::string_view what, std::string_view text);

/// Throws InputError for a type that the functions above do not give, and for a scale that is not
/// positive.
void check(const Precision& precision);

}  // namespace lowtide::models
