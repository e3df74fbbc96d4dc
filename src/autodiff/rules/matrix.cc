#include "autodiff/rule.h"
#include "builder/apply.h"
#include "builder/functions.h"

// Matrix products.
namespace lowtide::autodiff {
namespace {

using Result = std::vector<InputAdjoint>;

Value t(Value matrix) { return apply("aten::t", {matrix}); }

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
  return Adjoints(c).add(0, [&] { return left_adjoint(g, a, b); }).add(1, [&] {
    return right_adjoint(g, a, b);
  });
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

Result biased_batched_product(const RuleContext& c) {
  const Value g = c.adjoint(), a = c.arg(1), b = c.arg(2);
  const double beta = c.number(3, 1), alpha = c.number(4, 1);
  return Adjoints(c)
      .add(0, [&] { return scaled(g, beta); })
      .add(1, [&] { return scaled(bmm(g, transpose(b, 1, 2)), alpha); })
      .add(2, [&] { return scaled(bmm(transpose(a, 1, 2), g), alpha); });
}

/// The fused attention of LibTorch's CPU kernels: (query, key, value, dropout_p, is_causal,
/// attn_mask, scale) -> (output, logsumexp)
Result attention(const RuleContext& c) {
  std::vector<Value> adjoints(3);
  if (c.needs(0) || c.needs(1) || c.needs(2)) {
    adjoints = c.builder.call("aten::_scaled_dot_product_flash_attention_for_cpu_backward",
                              {c.adjoint(), c.arg(0), c.arg(1), c.arg(2), c.output(), c.outputs[1],
                               c.number(3, 0), c.flag(4, false), c.pass(5), c.pass(6)});
  }
  return Adjoints(c)
      .add(0, [&] { return adjoints[0]; })
      .add(1, [&] { return adjoints[1]; })
      .add(2, [&] { return adjoints[2]; });
}

constexpr GradientRule kMatrixRules[] = {
    {"aten::mm", product},
    {"aten::addmm", biased_product},
    {"aten::bmm", batched_product},
    {"aten::baddbmm", biased_batched_product},
    {"aten::_scaled_dot_product_flash_attention_for_cpu", attention},
};

}  // namespace

std::span<const GradientRule> matrix_rules() { return kMatrixRules; }

}  // namespace lowtide::autodiff
