#include <cmath>
#include <numbers>

#include "autodiff/rule.h"
#include "builder/apply.h"
#include "builder/functions.h"

// Activations and their backward ops. First derivatives call LibTorch's own backward kernels and
// save the same tensors: the output of relu, tanh and sigmoid, the input of the others.
namespace lowtide::autodiff {
namespace {

using Result = std::vector<InputAdjoint>;

Result tanh_rule(const RuleContext& c) {
  return Adjoints(c).add(0,
                         [&] { return apply("aten::tanh_backward", {c.adjoint(), c.output()}); });
}

Result tanh_backward(const RuleContext& c) {
  return Adjoints(c)
      .add(0, [&] { return apply("aten::tanh_backward", {c.adjoint(), c.arg(1)}); })
      .add(1, [&] { return c.adjoint() * (-2 * c.arg(1) * c.arg(0)); });
}

Result sigmoid_rule(const RuleContext& c) {
  return Adjoints(c).add(
      0, [&] { return apply("aten::sigmoid_backward", {c.adjoint(), c.output()}); });
}

Result sigmoid_backward(const RuleContext& c) {
  return Adjoints(c)
      .add(0, [&] { return apply("aten::sigmoid_backward", {c.adjoint(), c.arg(1)}); })
      .add(1, [&] { return c.adjoint() * c.arg(0) * (-2 * c.arg(1) + 1); });
}

Result relu_rule(const RuleContext& c) {
  return Adjoints(c).add(
      0, [&] { return apply("aten::threshold_backward", {c.adjoint(), c.output(), 0}); });
}

Result threshold_backward(const RuleContext& c) {
  return Adjoints(c).add(
      0, [&] { return apply("aten::threshold_backward", {c.adjoint(), c.arg(1), c.pass(2)}); });
}

Result hardtanh_rule(const RuleContext& c) {
  return Adjoints(c).add(0, [&] {
    return apply("aten::hardtanh_backward", {c.adjoint(), c.arg(0), c.pass(1), c.pass(2)});
  });
}

Result hardtanh_backward(const RuleContext& c) {
  return Adjoints(c).add(0, [&] {
    return apply("aten::hardtanh_backward", {c.adjoint(), c.arg(1), c.pass(2), c.pass(3)});
  });
}

Result silu_rule(const RuleContext& c) {
  return Adjoints(c).add(0, [&] { return apply("aten::silu_backward", {c.adjoint(), c.arg(0)}); });
}

std::vector<Value> silu_backward_primitives(const RuleContext& c) {
  const Value s = sigmoid(c.arg(1));
  return {c.arg(0) * s * (1 + c.arg(1) * (1 - s))};
}

Result silu_backward(const RuleContext& c) { return differentiate_as(c, silu_backward_primitives); }

Result gelu_rule(const RuleContext& c) {
  return Adjoints(c).add(
      0, [&] { return apply("aten::gelu_backward", {c.adjoint(), c.arg(0), c.pass(1)}); });
}

/// The second derivative of x * Phi(x): phi(x) (2 - x^2), with the normal density phi.
Value gelu_curvature(Value x) {
  const Value square = x * x;
  const double scale = std::numbers::inv_sqrtpi / std::numbers::sqrt2;
  return scale * exp(-0.5 * square) * (2 - square);
}

/// The same for GELU's approximation x (1 + tanh u) / 2 with u = k (x + 0.044715 x^3).
Value tanh_gelu_curvature(Value x) {
  const double k = std::numbers::sqrt2 * std::numbers::inv_sqrtpi;
  const Value square = x * x;
  const Value t = tanh(k * (x + 0.044715 * (square * x)));
  const Value du = k * (1 + 3 * 0.044715 * square);
  const Value ddu = 6 * 0.044715 * k * x;
  return (1 - t * t) * (du - x * t * (du * du) + 0.5 * x * ddu);
}

Result gelu_backward(const RuleContext& c) {
  const auto* mode = c.op.args.size() > 2 ? std::get_if<std::string>(&c.op.args[2]) : nullptr;
  const bool approximate = mode && *mode == "tanh";
  return Adjoints(c)
      .add(0, [&] { return apply("aten::gelu_backward", {c.adjoint(), c.arg(1), c.pass(2)}); })
      .add(1, [&] {
        const Value x = c.arg(1);
        return c.adjoint() * c.arg(0) * (approximate ? tanh_gelu_curvature(x) : gelu_curvature(x));
      });
}

constexpr GradientRule kActivationRules[] = {
    {"aten::tanh", tanh_rule},         {"aten::tanh_backward", tanh_backward},
    {"aten::sigmoid", sigmoid_rule},   {"aten::sigmoid_backward", sigmoid_backward},
    {"aten::relu", relu_rule},         {"aten::threshold_backward", threshold_backward},
    {"aten::hardtanh", hardtanh_rule}, {"aten::hardtanh_backward", hardtanh_backward},
    {"aten::silu", silu_rule},         {"aten::silu_backward", silu_backward},
    {"aten::gelu", gelu_rule},         {"aten::gelu_backward", gelu_backward},
};

}  // namespace

std::span<const GradientRule> activation_rules() { return kActivationRules; }

}  // namespace lowtide::autodiff
