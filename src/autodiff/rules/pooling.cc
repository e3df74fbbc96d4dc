#include "autodiff/rule.h"
#include "builder/apply.h"
#include "builder/functions.h"

// Pooling and resampling of N x C x H x W.
namespace lowtide::autodiff {
namespace {

using Result = std::vector<InputAdjoint>;

/// x at the place in each plane that `indices` names.
Value gather_planes(Value x, Value indices) {
  const Value picked = apply("aten::gather", {flatten(x, -2, -1), -1, flatten(indices, -2, -1)});
  return reshape(picked, indices.shape());
}

/// max_pool2d_with_indices(self, kernel, stride, padding, dilation, ceil_mode)
Result max_pool(const RuleContext& c) {
  return Adjoints(c).add(0, [&] {
    return apply("aten::max_pool2d_with_indices_backward",
                 {c.adjoint(), c.arg(0), c.pass(1), c.pass(2), c.pass(3), c.pass(4), c.pass(5),
                  c.outputs[1]});
  });
}

Result max_pool_backward(const RuleContext& c) {
  return Adjoints(c).add(0, [&] { return gather_planes(c.adjoint(), c.arg(7)); });
}

Result max_unpool(const RuleContext& c) {
  return Adjoints(c).add(0, [&] { return gather_planes(c.adjoint(), c.arg(1)); });
}

/// avg_pool2d(self, kernel, stride, padding, ceil_mode, count_include_pad, divisor_override)
Result avg_pool(const RuleContext& c) {
  return Adjoints(c).add(0, [&] {
    return apply("aten::avg_pool2d_backward",
                 {c.adjoint(), c.arg(0), c.pass(1), c.pass(2), c.integers(3), c.flag(4, false),
                  c.flag(5, true), c.pass(6)});
  });
}

Result avg_pool_backward(const RuleContext& c) {
  return Adjoints(c).add(0, [&] {
    return apply("aten::avg_pool2d",
                 {c.adjoint(), c.pass(2), c.pass(3), c.pass(4), c.pass(5), c.pass(6), c.pass(7)});
  });
}

Result adaptive_avg_pool(const RuleContext& c) {
  return Adjoints(c).add(
      0, [&] { return apply("aten::_adaptive_avg_pool2d_backward", {c.adjoint(), c.arg(0)}); });
}

Result adaptive_avg_pool_backward(const RuleContext& c) {
  const Value pooled = c.arg(0);
  return Adjoints(c).add(0, [&] {
    return apply("aten::_adaptive_avg_pool2d",
                 {c.adjoint(), Shape{pooled.size(-2), pooled.size(-1)}});
  });
}

/// upsample_bilinear2d(self, output_size, align_corners, scales_h, scales_w)
Result bilinear(const RuleContext& c) {
  return Adjoints(c).add(0, [&] {
    return apply("aten::upsample_bilinear2d_backward",
                 {c.adjoint(), c.pass(1), c.arg(0).shape(), c.pass(2), c.pass(3), c.pass(4)});
  });
}

Result bilinear_backward(const RuleContext& c) {
  return Adjoints(c).add(0, [&] {
    return apply("aten::upsample_bilinear2d",
                 {c.adjoint(), c.pass(1), c.pass(3), c.pass(4), c.pass(5)});
  });
}

/// upsample_nearest2d(self, output_size, scales_h, scales_w)
Result nearest(const RuleContext& c) {
  return Adjoints(c).add(0, [&] {
    return apply("aten::upsample_nearest2d_backward",
                 {c.adjoint(), c.pass(1), c.arg(0).shape(), c.pass(2), c.pass(3)});
  });
}

Result nearest_backward(const RuleContext& c) {
  return Adjoints(c).add(0, [&] {
    return apply("aten::upsample_nearest2d", {c.adjoint(), c.pass(1), c.pass(3), c.pass(4)});
  });
}

constexpr GradientRule kPoolingRules[] = {
    {"aten::max_pool2d_with_indices", max_pool},
    {"aten::max_pool2d_with_indices_backward", max_pool_backward},
    {"aten::max_unpool2d", max_unpool},
    {"aten::avg_pool2d", avg_pool},
    {"aten::avg_pool2d_backward", avg_pool_backward},
    {"aten::_adaptive_avg_pool2d", adaptive_avg_pool},
    {"aten::_adaptive_avg_pool2d_backward", adaptive_avg_pool_backward},
    {"aten::upsample_bilinear2d", bilinear},
    {"aten::upsample_bilinear2d_backward", bilinear_backward},
    {"aten::upsample_nearest2d", nearest},
    {"aten::upsample_nearest2d_backward", nearest_backward},
};

}  // namespace

std::span<const GradientRule> pooling_rules() { return kPoolingRules; }

}  // namespace lowtide::autodiff
