#include <array>
#include <numeric>

#include "autodiff/rule.h"
#include "builder/functions.h"

// Batch and layer normalization: y = (x - mean) * scale * weight + bias, where mean and
// scale = 1 / sqrt(variance + epsilon) are taken over `dims` of x and saved as outputs 1 and 2.
// Their backward ops take the saved statistics as inputs of their own, so that second derivatives
// reach x partly through them.
namespace lowtide::autodiff {
namespace {

using Result = std::vector<InputAdjoint>;
using Dims = std::vector<std::int64_t>;

/// The operands of the formulas, shaped to broadcast against x.
struct Normalized {
  Value x, mean, scale, weight;  ///< weight may be empty
  Dims dims;                     ///< over which the statistics are taken
  Dims weight_dims;              ///< over which weight and bias are shared
  bool from_batch = true;        ///< false: mean and scale are constants

  Value hat() const { return (x - mean) * scale; }
};

/// The adjoint of x through the saved statistics; an empty adjoint counts as zero.
Value through_statistics(const Normalized& n, Value mean_adjoint, Value scale_adjoint) {
  double count = 1;
  for (std::int64_t dim : n.dims) count *= static_cast<double>(n.x.size(dim));
  Value sum;
  if (mean_adjoint) sum = expand(mean_adjoint / count, n.x.shape());
  if (!scale_adjoint) return sum;
  const Value slope = scale_adjoint * pow(n.scale, 3) / -count;
  const Value term = slope * (n.x - n.mean);
  return sum ? sum + term : term;
}

/// The adjoints of x, weight and bias, given that of y, as the backward kernels compute them.
std::array<Value, 3> backward_primitives(const Normalized& n, Value g, const Shape& weight_shape) {
  const Value hat = n.hat();
  const Value weighted = n.weight ? g * n.weight : g;
  Value inner = weighted;
  if (n.from_batch) {
    inner = weighted - mean(weighted, n.dims, true) - hat * mean(weighted * hat, n.dims, true);
  }
  return {n.scale * inner, reshape(sum(g * hat, n.weight_dims, true), weight_shape),
          reshape(sum(g, n.weight_dims, true), weight_shape)};
}

/// Those of the three results that the op's mask asks for.
std::vector<Value> masked(const Op& op, const std::array<Value, 3>& results) {
  const std::vector<std::int32_t> outputs = masked_outputs(op);
  std::vector<Value> kept;
  for (std::size_t k = 0; k < results.size(); ++k) {
    if (outputs[k] != kNone) kept.push_back(results[k]);
  }
  return kept;
}

Dims range(std::int64_t begin, std::int64_t end) {
  Dims dims(static_cast<std::size_t>(end - begin));
  std::iota(dims.begin(), dims.end(), begin);
  return dims;
}

// ---- Batch normalization of N x C x ... ------------------------------------------------------

Dims all_but_channels(Value x) {
  Dims dims = range(0, x.dim());
  dims.erase(dims.begin() + 1);
  return dims;
}

Value per_channel(Value statistic, Value x) {
  if (!statistic) return {};
  Shape shape(x.shape().size(), 1);
  shape[1] = x.size(1);
  return reshape(statistic, shape);
}

Normalized batch(Value x, Value mean, Value scale, Value weight) {
  const Dims dims = all_but_channels(x);
  return {x, per_channel(mean, x), per_channel(scale, x), per_channel(weight, x), dims, dims};
}

/// native_batch_norm(input, weight, bias, running_mean, running_var, training, momentum, epsilon)
Result batch_norm(const RuleContext& c) {
  const bool training = c.flag(5, true);
  const Value x = c.arg(0), mean = c.outputs[1], scale = c.outputs[2];
  const CallArg running_mean = training ? CallArg(NoneArg()) : c.pass(3);
  const CallArg running_var = training ? CallArg(NoneArg()) : c.pass(4);
  std::vector<Value> adjoints(3);
  constexpr std::array<std::size_t, 3> kOperands = {0, 1, 2};
  if (c.adjoints[0]) {
    adjoints = call_masked(
        c, "aten::native_batch_norm_backward",
        {c.adjoints[0], x, c.pass(1), running_mean, running_var, mean, scale, training, c.pass(7)},
        kOperands);
  }
  Adjoints result(c);
  result.add(0, [&] { return adjoints[0]; }).add(1, [&] { return adjoints[1]; }).add(2, [&] {
    return adjoints[2];
  });
  if (!training) return result;
  return result.add(0, [&] {
    return through_statistics(batch(x, mean, scale, {}), per_channel(c.adjoints[1], x),
                              per_channel(c.adjoints[2], x));
  });
}

/// native_batch_norm_backward(grad_out, input, weight, running_mean, running_var, save_mean,
/// save_invstd, train, epsilon, output_mask)
std::vector<Value> batch_norm_backward_primitives(const RuleContext& c) {
  const bool training = c.flag(7, true);
  const Value x = c.arg(1);
  Normalized n = training ? batch(x, c.arg(5), c.arg(6), c.arg(2))
                          : batch(x, c.arg(3), rsqrt(c.arg(4) + c.number(8, 0)), c.arg(2));
  n.from_batch = training;
  return masked(c.op, backward_primitives(n, c.arg(0), {x.size(1)}));
}

Result batch_norm_backward(const RuleContext& c) {
  return differentiate_as(c, batch_norm_backward_primitives);
}

// ---- Layer normalization over the last dimensions ---------------------------------------------

Normalized layer(Value x, Value mean, Value scale, Value weight, std::size_t rank) {
  const std::int64_t outer = x.dim() - static_cast<std::int64_t>(rank);
  return {x, mean, scale, weight, range(outer, x.dim()), range(0, outer)};
}

/// native_layer_norm(input, normalized_shape, weight, bias, epsilon)
Result layer_norm(const RuleContext& c) {
  const Value x = c.arg(0), mean = c.outputs[1], scale = c.outputs[2];
  std::vector<Value> adjoints(3);
  constexpr std::array<std::size_t, 3> kOperands = {0, 2, 3};
  if (c.adjoints[0]) {
    adjoints =
        call_masked(c, "aten::native_layer_norm_backward",
                    {c.adjoints[0], x, c.pass(1), mean, scale, c.pass(2), c.pass(3)}, kOperands);
  }
  return Adjoints(c)
      .add(0, [&] { return adjoints[0]; })
      .add(2, [&] { return adjoints[1]; })
      .add(3, [&] { return adjoints[2]; })
      .add(0, [&] {
        return through_statistics(layer(x, mean, scale, {}, c.integers(1).size()), c.adjoints[1],
                                  c.adjoints[2]);
      });
}

/// native_layer_norm_backward(grad_out, input, normalized_shape, mean, rstd, weight, bias,
/// output_mask)
std::vector<Value> layer_norm_backward_primitives(const RuleContext& c) {
  const Shape normalized = c.integers(2);
  const Normalized n = layer(c.arg(1), c.arg(3), c.arg(4), c.arg(5), normalized.size());
  return masked(c.op, backward_primitives(n, c.arg(0), normalized));
}

Result layer_norm_backward(const RuleContext& c) {
  return differentiate_as(c, layer_norm_backward_primitives);
}

constexpr GradientRule kNormalizationRules[] = {
    {"aten::native_batch_norm", batch_norm},
    {"aten::native_batch_norm_backward", batch_norm_backward},
    {"aten::native_layer_norm", layer_norm},
    {"aten::native_layer_norm_backward", layer_norm_backward},
};

}  // namespace

std::span<const GradientRule> normalization_rules() { return kNormalizationRules; }

}  // namespace lowtide::autodiff
