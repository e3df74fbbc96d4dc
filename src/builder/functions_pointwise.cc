#include <cmath>

#include "builder/apply.h"
#include "builder/functions.h"

namespace lowtide {
namespace {

/// Whole numbers leave integer tensors integer, as in PyTorch.
CallArg number_for(Value x, double number) {
  const bool whole = std::trunc(number) == number && std::abs(number) < 0x1p53;
  if (is_floating(x.dtype()) || !whole) return number;
  return static_cast<std::int64_t>(number);
}

}  // namespace

Value operator+(Value a, Value b) { return apply("aten::add.Tensor", {a, b}); }
Value operator-(Value a, Value b) { return apply("aten::sub.Tensor", {a, b}); }
Value operator*(Value a, Value b) { return apply("aten::mul.Tensor", {a, b}); }
Value operator/(Value a, Value b) { return apply("aten::div.Tensor", {a, b}); }
Value operator-(Value a) { return apply("aten::neg", {a}); }
Value operator+(Value a, double b) { return apply("aten::add.Scalar", {a, number_for(a, b)}); }
Value operator-(Value a, double b) { return apply("aten::sub.Scalar", {a, number_for(a, b)}); }
Value operator*(Value a, double b) { return apply("aten::mul.Scalar", {a, number_for(a, b)}); }
Value operator/(Value a, double b) { return apply("aten::div.Scalar", {a, number_for(a, b)}); }
Value operator+(double a, Value b) { return b + a; }
Value operator-(double a, Value b) { return apply("aten::rsub.Scalar", {b, number_for(b, a)}); }
Value operator*(double a, Value b) { return b * a; }
Value operator/(double a, Value b) { return reciprocal(b) * a; }

Value exp(Value x) { return apply("aten::exp", {x}); }
Value log(Value x) { return apply("aten::log", {x}); }
Value sin(Value x) { return apply("aten::sin", {x}); }
Value cos(Value x) { return apply("aten::cos", {x}); }
Value sqrt(Value x) { return apply("aten::sqrt", {x}); }
Value rsqrt(Value x) { return apply("aten::rsqrt", {x}); }
Value abs(Value x) { return apply("aten::abs", {x}); }
Value sign(Value x) { return apply("aten::sign", {x}); }
Value reciprocal(Value x) { return apply("aten::reciprocal", {x}); }

Value pow(Value x, double exponent) {
  return apply("aten::pow.Tensor_Scalar", {x, number_for(x, exponent)});
}

Value tanh(Value x) { return apply("aten::tanh", {x}); }
Value sigmoid(Value x) { return apply("aten::sigmoid", {x}); }
Value relu(Value x) { return apply("aten::relu", {x}); }
Value silu(Value x) { return apply("aten::silu", {x}); }
Value relu6(Value x) { return hardtanh(x, 0, 6); }

Value hardtanh(Value x, double low, double high) { return apply("aten::hardtanh", {x, low, high}); }

Value gelu(Value x, bool tanh_approximation) {
  return apply("aten::gelu", {x, std::string(tanh_approximation ? "tanh" : "none")});
}

Value maximum(Value a, Value b) { return apply("aten::maximum", {a, b}); }
Value minimum(Value a, Value b) { return apply("aten::minimum", {a, b}); }
Value where(Value condition, Value a, Value b) {
  return apply("aten::where.self", {condition, a, b});
}
Value masked_fill(Value x, Value mask, double value) {
  return apply("aten::masked_fill.Scalar", {x, mask, number_for(x, value)});
}
Value logical_not(Value mask) { return apply("aten::logical_not", {mask}); }
Value to(Value x, DType dtype) {
  return x.dtype() == dtype ? x : apply("aten::_to_copy", {x, dtype});
}

Value gt(Value x, double threshold) { return apply("aten::gt.Scalar", {x, threshold}); }
Value ge(Value x, double threshold) { return apply("aten::ge.Scalar", {x, threshold}); }
Value lt(Value x, double threshold) { return apply("aten::lt.Scalar", {x, threshold}); }
Value le(Value x, double threshold) { return apply("aten::le.Scalar", {x, threshold}); }
Value eq(Value a, Value b) { return apply("aten::eq.Tensor", {a, b}); }

// Made from the shape alone, so that nothing needs x for it.
Value zeros_like(Value x) { return full(x.builder(), x.shape(), 0, x.dtype()); }
Value ones_like(Value x) { return full(x.builder(), x.shape(), 1, x.dtype()); }

Value full(Builder& builder, Shape shape, double value, DType dtype) {
  return builder.call1("aten::full", {std::move(shape), value, dtype});
}

}  // namespace lowtide
