#include "autodiff/rule.h"
#include "builder/apply.h"
#include "builder/functions.h"

// Losses. Reductions are LibTorch's: 0 none, 1 mean, 2 sum.
namespace lowtide::autodiff {
namespace {

using Result = std::vector<InputAdjoint>;

constexpr std::int64_t kMean = 1;

Value over_count(Value x, std::int64_t reduction, Value per_element) {
  return reduction == kMean ? x / static_cast<double>(per_element.type().elements()) : x;
}

/// nll_loss_forward(self, target, weight, reduction, ignore_index)
Result nll(const RuleContext& c, std::string_view backward) {
  return Adjoints(c).add(0, [&] {
    return apply(backward,
                 {c.adjoint(), c.arg(0), c.arg(1), c.pass(2), c.pass(3), c.pass(4), c.outputs[1]});
  });
}

Result nll_1d(const RuleContext& c) { return nll(c, "aten::nll_loss_backward"); }
Result nll_2d(const RuleContext& c) { return nll(c, "aten::nll_loss2d_backward"); }

/// nll_loss_backward(grad_output, self, target, weight, reduction, ignore_index, total_weight)
Result nll_backward(const RuleContext& c, std::string_view forward) {
  return Adjoints(c).add(0, [&] {
    return c.builder.call(forward, {c.adjoint(), c.arg(2), c.pass(3), c.pass(4), c.pass(5)})
        .front();
  });
}

Result nll_1d_backward(const RuleContext& c) { return nll_backward(c, "aten::nll_loss_forward"); }
Result nll_2d_backward(const RuleContext& c) { return nll_backward(c, "aten::nll_loss2d_forward"); }

/// mse_loss(self, target, reduction)
Result squared_error(const RuleContext& c) {
  const std::int64_t reduction = c.integer(2, kMean);
  const auto of = [&](Value x, Value other) {
    return apply("aten::mse_loss_backward", {c.adjoint(), x, other, reduction});
  };
  return Adjoints(c).add(0, [&] { return of(c.arg(0), c.arg(1)); }).add(1, [&] {
    return of(c.arg(1), c.arg(0));
  });
}

/// mse_loss_backward(grad_output, self, target, reduction) = 2 (self - target) grad / count
std::vector<Value> squared_error_backward_primitives(const RuleContext& c) {
  return {over_count(2 * (c.arg(1) - c.arg(2)) * c.arg(0), c.integer(3, kMean), c.arg(1))};
}

Result squared_error_backward(const RuleContext& c) {
  return differentiate_as(c, squared_error_backward_primitives);
}

constexpr GradientRule kLossRules[] = {
    {"aten::nll_loss_forward", nll_1d},   {"aten::nll_loss_backward", nll_1d_backward},
    {"aten::nll_loss2d_forward", nll_2d}, {"aten::nll_loss2d_backward", nll_2d_backward},
    {"aten::mse_loss", squared_error},    {"aten::mse_loss_backward", squared_error_backward},
};

}  // namespace

std::span<const GradientRule> loss_rules() { return kLossRules; }

}  // namespace lowtide::autodiff
