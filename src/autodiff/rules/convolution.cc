#include <array>

#include "autodiff/rule.h"
#include "builder/apply.h"
#include "builder/functions.h"

// Convolution and its backward op, which are closed under differentiation.
namespace lowtide::autodiff {
namespace {

using Result = std::vector<InputAdjoint>;

constexpr std::array<std::size_t, 3> kOperands = {0, 1, 2};  // input, weight, bias

/// convolution(input, weight, bias, stride, padding, dilation, transposed, output_padding, groups)
Result convolution(const RuleContext& c) {
  const Value bias = c.arg(2);
  const CallArg bias_sizes = bias ? CallArg(bias.shape()) : CallArg(NoneArg());
  const std::vector<Value> adjoints =
      call_masked(c, "aten::convolution_backward",
                  {c.adjoint(), c.arg(0), c.arg(1), bias_sizes, c.pass(3), c.pass(4), c.pass(5),
                   c.pass(6), c.pass(7), c.pass(8)},
                  kOperands);
  return Adjoints(c)
      .add(0, [&] { return adjoints[0]; })
      .add(1, [&] { return adjoints[1]; })
      .add(2, [&] { return adjoints[2]; });
}

/// The terms of the rule below. With conv bilinear and `g` the adjoint of its output, the results
/// are grad_input = conv_input(g, w), grad_weight = conv_weight(g, x) and grad_bias = sum(g), where
/// <u, conv_input(g, w)> = <g, conv(u, w)> and <v, conv_weight(g, x)> = <g, conv(x, v)>.
class ConvolutionBackward {
 public:
  explicit ConvolutionBackward(const RuleContext& c) : c_(c) {
    const std::vector<std::int32_t> outputs = masked_outputs(c.op);
    for (std::size_t k = 0; k < 3; ++k) {
      if (outputs[k] != kNone) adjoints_[k] = c.adjoints[static_cast<std::size_t>(outputs[k])];
    }
  }

  /// conv(u, w) + conv(x, v) + the bias adjoint along the channels
  Value of_output() const {
    Value sum;
    if (adjoints_[0]) sum = forward(adjoints_[0], c_.arg(2));
    if (adjoints_[1]) sum = plus(sum, forward(c_.arg(1), adjoints_[1]));
    if (!adjoints_[2]) return sum;
    const Value g = c_.arg(0);
    Shape per_channel(g.shape().size(), 1);
    per_channel[1] = g.size(1);
    return plus(sum, expand(reshape(adjoints_[2], per_channel), g.shape()));
  }
  Value of_input() const {
    return adjoints_[1] ? backward(c_.arg(1), adjoints_[1], {1, 0, 0}) : Value();
  }
  Value of_weight() const {
    return adjoints_[0] ? backward(adjoints_[0], c_.arg(2), {0, 1, 0}) : Value();
  }

 private:
  static Value plus(Value sum, Value term) { return sum ? sum + term : term; }

  Value forward(Value x, Value w) const {
    return apply("aten::convolution", {x, w, Value(), c_.pass(4), c_.pass(5), c_.pass(6),
                                       c_.pass(7), c_.pass(8), c_.pass(9)});
  }
  Value backward(Value x, Value w, std::vector<std::int64_t> mask) const {
    return apply("aten::convolution_backward",
                 {c_.arg(0), x, w, NoneArg(), c_.pass(4), c_.pass(5), c_.pass(6), c_.pass(7),
                  c_.pass(8), c_.pass(9), mask});
  }

  const RuleContext& c_;
  std::array<Value, 3> adjoints_;  ///< u, v and that of the bias
};

/// convolution_backward(grad_output, input, weight, bias_sizes, stride, ..., groups, output_mask)
Result convolution_backward(const RuleContext& c) {
  const ConvolutionBackward backward(c);
  return Adjoints(c)
      .add(0, [&] { return backward.of_output(); })
      .add(1, [&] { return backward.of_input(); })
      .add(2, [&] { return backward.of_weight(); });
}

constexpr GradientRule kConvolutionRules[] = {
    {"aten::convolution", convolution},
    {"aten::convolution_backward", convolution_backward},
};

}  // namespace

std::span<const GradientRule> convolution_rules() { return kConvolutionRules; }

}  // namespace lowtide::autodiff
