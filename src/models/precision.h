#pragma once

#include <string_view>

#include "graph/dtype.h"

namespace lowtide::models {

/// How a step computes (docs/explanation/mixed-precision.md). Parameters, their gradients and the
/// optimizer's state are f32 in any case.
struct Precision {
  DType compute = DType::f32;  ///< bf16 and f16: the lower precision of autocast
  double loss_scale = 65536;   ///< of the first step; f16 only
};

/// Reads "f32", "bf16" and "fp16". Throws InputError for other texts.
DType parse_precision(std::string_view text);
/// The text that parse_precision() reads.
std::string_view precision_name(DType compute);

/// Throws InputError for a type that parse_precision() does not give, and for a scale that is not
/// positive.
void check(const Precision& precision);

}  // namespace lowtide::models
