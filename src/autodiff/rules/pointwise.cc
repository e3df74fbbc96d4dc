#include <cmath>
#include <numbers>

#include "autodiff/rule.h"
#include "builder/apply.h"
#include "builder/functions.h"

// Arithmetic and elementary functions. The formulas and their order of operations are LibTorch
// autograd's, so that gradients agree with it bit for bit.
namespace lowtide::autodiff {
namespace {

using Result = std::vector<InputAdjoint>;

Result identity(const RuleContext& c) {
  return Adjoints(c).add(0, [&] { return c.adjoint(); });
}

Result add(const RuleContext& c) {
  return Adjoints(c).add(0, [&] { return c.adjoint(); }).add(1, [&] {
    return scaled(c.adjoint(), c.number(2, 1));
  });
}

Result subtract(const RuleContext& c) {
  return Adjoints(c).add(0, [&] { return c.adjoint(); }).add(1, [&] {
    return scaled(-c.adjoint(), c.number(2, 1));
  });
}

Result subtract_from_scalar(const RuleContext& c) {
  return Adjoints(c).add(0, [&] { return scaled(-c.adjoint(), c.number(2, 1)); });
}

Result multiply(const RuleContext& c) {
  return Adjoints(c).add(0, [&] { return c.adjoint() * c.arg(1); }).add(1, [&] {
    return c.adjoint() * c.arg(0);
  });
}

Result multiply_by_scalar(const RuleContext& c) {
  return Adjoints(c).add(0, [&] { return c.adjoint() * c.number(1, 1); });
}

Result divide(const RuleContext& c) {
  return Adjoints(c).add(0, [&] { return c.adjoint() / c.arg(1); }).add(1, [&] {
    return -c.adjoint() * ((c.arg(0) / c.arg(1)) / c.arg(1));
  });
}

Result divide_by_scalar(const RuleContext& c) {
  return Adjoints(c).add(0, [&] { return c.adjoint() / c.number(1, 1); });
}

Result negate(const RuleContext& c) {
  return Adjoints(c).add(0, [&] { return -c.adjoint(); });
}

Result exponential(const RuleContext& c) {
  return Adjoints(c).add(0, [&] { return c.adjoint() * c.output(); });
}

Result logarithm(const RuleContext& c) {
  return Adjoints(c).add(0, [&] { return c.adjoint() / c.arg(0); });
}

Result sine(const RuleContext& c) {
  return Adjoints(c).add(0, [&] { return c.adjoint() * cos(c.arg(0)); });
}

Result cosine(const RuleContext& c) {
  return Adjoints(c).add(0, [&] { return c.adjoint() * -sin(c.arg(0)); });
}

Result logarithm_of_successor(const RuleContext& c) {
  return Adjoints(c).add(0, [&] { return c.adjoint() / (c.arg(0) + 1); });
}

Result error_function(const RuleContext& c) {
  const double scale = 2 * std::numbers::inv_sqrtpi;
  return Adjoints(c).add(0, [&] { return scale * exp(-pow(c.arg(0), 2)) * c.adjoint(); });
}

Result square_root(const RuleContext& c) {
  return Adjoints(c).add(0, [&] { return c.adjoint() / (2 * c.output()); });
}

Result inverse_square_root(const RuleContext& c) {
  return Adjoints(c).add(0, [&] { return (-0.5 * c.adjoint()) * pow(c.output(), 3); });
}

Result absolute(const RuleContext& c) {
  return Adjoints(c).add(0, [&] { return c.adjoint() * sign(c.arg(0)); });
}

Result power(const RuleContext& c) {
  const double exponent = c.number(1, 1);
  return Adjoints(c).add(0, [&] {
    if (exponent == 0) return Value();
    return c.adjoint() * (exponent * pow(c.arg(0), exponent - 1));
  });
}

Result inverse(const RuleContext& c) {
  return Adjoints(c).add(0, [&] { return -c.adjoint() * (c.output() * c.output()); });
}

/// addcmul(self, tensor1, tensor2, value) = self + value * tensor1 * tensor2
Result add_product(const RuleContext& c) {
  const double value = c.number(3, 1);
  return Adjoints(c)
      .add(0, [&] { return c.adjoint(); })
      .add(1, [&] { return c.adjoint() * (c.arg(2) * value); })
      .add(2, [&] { return c.adjoint() * (c.arg(1) * value); });
}

/// addcdiv(self, tensor1, tensor2, value) = self + value * tensor1 / tensor2
Result add_quotient(const RuleContext& c) {
  const double value = c.number(3, 1);
  const Value divisor = c.arg(2);
  return Adjoints(c)
      .add(0, [&] { return c.adjoint(); })
      .add(1, [&] { return c.adjoint() * (full(c.builder, {}, value, divisor.dtype()) / divisor); })
      .add(2, [&] { return -c.adjoint() * (value * c.arg(1) / (divisor * divisor)); });
}

/// The adjoint of an operand of a maximum or minimum: zero where the comparison `loses` of both
/// operands is true; a tie is shared equally.
Value share_of_winner(const RuleContext& c, std::string_view loses) {
  const Value tie = eq(c.arg(0), c.arg(1));
  const Value lost = apply(loses, {c.arg(0), c.arg(1)});
  return masked_fill(where(tie, c.adjoint() / 2, c.adjoint()), lost, 0);
}

Result larger(const RuleContext& c) {
  return Adjoints(c).add(0, [&] { return share_of_winner(c, "aten::lt.Tensor"); }).add(1, [&] {
    return share_of_winner(c, "aten::gt.Tensor");
  });
}

Result smaller(const RuleContext& c) {
  return Adjoints(c).add(0, [&] { return share_of_winner(c, "aten::gt.Tensor"); }).add(1, [&] {
    return share_of_winner(c, "aten::lt.Tensor");
  });
}

Result choice(const RuleContext& c) {
  return Adjoints(c)
      .add(1, [&] { return masked_fill(c.adjoint(), logical_not(c.arg(0)), 0); })
      .add(2, [&] { return masked_fill(c.adjoint(), c.arg(0), 0); });
}

Result fill_masked(const RuleContext& c) {
  return Adjoints(c).add(0, [&] { return masked_fill(c.adjoint(), c.arg(1), 0); });
}

/// In as many bits as a half type has; the number itself for wider types.
double rounded_to_half(DType dtype, double number) {
  if (element_bytes(dtype) != 2) return number;
  const int bits = dtype == DType::bf16 ? 8 : 11;
  int exponent = 0;
  const double fraction = std::frexp(number, &exponent);
  return std::ldexp(std::nearbyint(std::ldexp(fraction, bits)), exponent - bits);
}

/// native_dropout(input, probability, train) saves its mask. Its kernel rounds the scale to the
/// type of the input; that of the backward op would not.
Result dropout_of(const RuleContext& c) {
  const double probability = c.number(1, 0);
  const double scale =
      probability == 1 ? 0 : rounded_to_half(c.arg(0).dtype(), 1 / (1 - probability));
  return Adjoints(c).add(0, [&] {
    return apply("aten::native_dropout_backward", {c.adjoint(), c.outputs[1], scale});
  });
}

Result dropout_backward(const RuleContext& c) {
  return Adjoints(c).add(0, [&] {
    return apply("aten::native_dropout_backward", {c.adjoint(), c.arg(1), c.pass(2)});
  });
}

constexpr GradientRule kPointwiseRules[] = {
    {"aten::add.Tensor", add},
    {"aten::add.Scalar", identity},
    {"aten::sub.Tensor", subtract},
    {"aten::sub.Scalar", identity},
    {"aten::rsub.Scalar", subtract_from_scalar},
    {"aten::mul.Tensor", multiply},
    {"aten::mul.Scalar", multiply_by_scalar},
    {"aten::div.Tensor", divide},
    {"aten::div.Scalar", divide_by_scalar},
    {"aten::neg", negate},
    {"aten::exp", exponential},
    {"aten::log", logarithm},
    {"aten::sin", sine},
    {"aten::cos", cosine},
    {"aten::sqrt", square_root},
    {"aten::rsqrt", inverse_square_root},
    {"aten::abs", absolute},
    {"aten::sign", zero_rule},
    {"aten::sgn", zero_rule},
    {"aten::log1p", logarithm_of_successor},
    {"aten::erf", error_function},
    {"aten::addcmul", add_product},
    {"aten::addcdiv", add_quotient},
    {"aten::pow.Tensor_Scalar", power},
    {"aten::reciprocal", inverse},
    {"aten::maximum", larger},
    {"aten::minimum", smaller},
    {"aten::where.self", choice},
    {"aten::masked_fill.Scalar", fill_masked},
    {"aten::_to_copy", identity},
    {"aten::clone", identity},
    {"aten::zeros_like", zero_rule},
    {"aten::ones_like", zero_rule},
    {"aten::native_dropout", dropout_of},
    {"aten::native_dropout_backward", dropout_backward},
};

}  // namespace

std::span<const GradientRule> pointwise_rules() { return kPointwiseRules; }

}  // namespace lowtide::autodiff
