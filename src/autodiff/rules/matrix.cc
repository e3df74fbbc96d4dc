#include "autodiff/rule.h"
#include "build/functions.h"

// Matrix products.
namespace lowtide {
namespace {

using Result = std::vector<InputAdjoint>;

Value t(Value matrix) { return matrix.builder().call1("aten::t", {matrix}); }

bool column_major(Value matrix) {
  const Shape& strides = matrix.type().strides;
  return strides[0] == 1 && strides[1] == matrix.size(0);
}

/// Adjoints of a * b, in the layout of the factor, so that a transposed weight gets its gradient
/// in its own layout without a copy.
Value left_adjoint(Value g, Value a, Value b) {
  return column_major(a) ? t(mm(b, t(g))) : mm(g, t(b));
}

Value right_adjoint(Value g, Value a, Value b) {
  return column_major(b) ? t(mm(t(g), a)) : mm(t(a), g);
}

Result product(const RuleContext& c) {
  const Value g = c.adjoint(), a = c.arg(0), b = c.arg(1);
  return Adjoints(c)
      .add(0, [&] { return left_adjoint(g, a, b); })
      .add(1, [&] { return right_adjoint(g, a, b); });
}

/// beta * bias + alpha * a * b
Result biased_product(const RuleContext& c) {
  const Value g = c.adjoint(), a = c.arg(1), b = c.arg(2);
  const double beta = c.number(3, 1), alpha = c.number(4, 1);
  return Adjoints(c)
      .add(0, [&] { return scaled(g, beta); })
      .add(1, [&] { return scaled(left_adjoint(g, a, b), alpha); })
      .add(2, [&] { return scaled(right_adjoint(g, a, b), alpha); });
}

Result batched_product(const RuleContext& c) {
  return Adjoints(c)
      .add(0, [&] { return bmm(c.adjoint(), transpose(c.arg(1), 1, 2)); })
      .add(1, [&] { return bmm(transpose(c.arg(0), 1, 2), c.adjoint()); });
}

constexpr GradientRule kRules[] = {
    {"aten::mm", product},
    {"aten::addmm", biased_product},
    {"aten::bmm", batched_product},
};

}  // namespace

std::span<const GradientRule> matrix_rules() { return kRules; }

}  // namespace lowtide
