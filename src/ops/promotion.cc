#include "ops/promotion.h"

#include <algorithm>

namespace lowtide::ops {
namespace {

bool is_unsigned_byte(DType dtype) { return dtype == DType::u8; }

DType promote_integers(DType a, DType b) {
  if (is_unsigned_byte(a) != is_unsigned_byte(b) && (a == DType::i8 || b == DType::i8)) {
    return DType::i16;  // the smallest type for both 0..255 and negative numbers
  }
  if (element_bytes(a) != element_bytes(b)) return element_bytes(a) > element_bytes(b) ? a : b;
  return is_unsigned_byte(a) ? b : a;
}

DType promote_floating(DType a, DType b) {
  if (element_bytes(a) != element_bytes(b)) return element_bytes(a) > element_bytes(b) ? a : b;
  return DType::f32;  // f16 with bf16: neither holds the other
}

/// `strong` wins unless `weak` is of a higher kind (floating over integer over boolean).
std::optional<DType> combine(std::optional<DType> strong, std::optional<DType> weak) {
  if (!strong || !weak) return strong ? strong : weak;
  if (is_floating(*strong)) return strong;
  if (*strong == DType::boolean || is_floating(*weak)) return promote(*strong, *weak);
  return strong;
}

std::optional<DType> promote_all(std::span<const TensorType> tensors, bool with_dimensions) {
  std::optional<DType> result;
  for (const TensorType& t : tensors) {
    if (t.shape.empty() == with_dimensions) continue;
    result = result ? promote(*result, t.dtype) : t.dtype;
  }
  return result;
}

}  // namespace

DType promote(DType a, DType b) {
  if (a == b || b == DType::boolean) return a;
  if (a == DType::boolean) return b;
  if (is_floating(a) != is_floating(b)) return is_floating(a) ? a : b;
  return is_floating(a) ? promote_floating(a, b) : promote_integers(a, b);
}

DType result_dtype(std::span<const TensorType> tensors, std::optional<DType> number) {
  const auto scalars = combine(promote_all(tensors, false), number);
  return combine(promote_all(tensors, true), scalars).value_or(DType::f32);
}

DType number_dtype(const OpCall& call, std::size_t i) {
  if (call.holds<bool>(i)) return DType::boolean;
  return call.holds<std::int64_t>(i) ? DType::i64 : DType::f32;
}

DType as_floating(DType dtype) { return is_floating(dtype) ? dtype : DType::f32; }

}  // namespace lowtide::ops
