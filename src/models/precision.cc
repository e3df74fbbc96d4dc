#include "models/precision.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/nearest.h"

namespace lowtide::models {
namespace {

struct NamedPrecision {
  DType compute;
  std::string_view name;
};
constexpr NamedPrecision kPrecisions[] = {
    {DType::f32, "f32"}, {DType::bf16, "bf16"}, {DType::f16, "fp16"}};

/// f16 is none of them: gradients below 6e-8 and squares of small ones would be lost.
constexpr DType kStoredTypes[] = {DType::f32, DType::bf16};

bool is_stored_type(DType dtype) { return std::ranges::count(kStoredTypes, dtype) > 0; }

void check_stored_type(std::string_view what, DType dtype) {
  if (is_stored_type(dtype)) return;
  throw InputError(fmt::format("{} is f32 or bf16, not {}.", what, name(dtype)));
}

}  // namespace

DType parse_precision(std::string_view text) {
  for (const NamedPrecision& precision : kPrecisions) {
    if (text == precision.name) return precision.compute;
  }
  throw InputError(fmt::format("the precision is f32, bf16 or fp16, not \"{}\".{}", text,
                               did_you_mean(text, {"f32", "bf16", "fp16"})));
}

std::string_view precision_name(DType compute) {
  for (const NamedPrecision& precision : kPrecisions) {
    if (compute == precision.compute) return precision.name;
  }
  throw InputError(
      fmt::format("a step cannot compute in {}: choose f32, bf16 or fp16.", name(compute)));
}

DType parse_stored_type(std::string_view what, std::string_view text) {
  for (DType dtype : kStoredTypes) {
    if (text == name(dtype)) return dtype;
  }
  throw InputError(fmt::format("{} is f32 or bf16, not \"{}\".{}", what, text,
                               did_you_mean(text, {"f32", "bf16"})));
}

void check(const Precision& precision) {
  precision_name(precision.compute);
  check_stored_type(kGradientType, precision.gradient_type);
  check_stored_type(kStateType, precision.state_type);
  const bool is_scale = std::isfinite(precision.loss_scale) && precision.loss_scale > 0;
  if (is_scale) return;
  throw InputError(fmt::format("the loss scale must be positive, not {}.", precision.loss_scale));
}

}  // namespace lowtide::models
