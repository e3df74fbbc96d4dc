#include "models/layers.h"

#include <fmt/format.h>

#include "base/error.h"

namespace lowtide::models::layers {
namespace {

Value bias_parameter(Builder& builder, const ParameterInit& bias, std::int64_t width,
                     const Shape& weight_shape) {
  return bias ? builder.parameter("bias", {width}, bias(weight_shape)) : Value();
}

/// Throws InputError when each channel of x has only one value.
void require_variance(Value x, Value weight) {
  if (x.type().elements() / x.size(1) > 1) return;
  const auto& tensors = x.builder().data().tensors;
  throw InputError(fmt::format(
      "the batch normalization by \"{}\" would get one value per channel, which has no variance: "
      "use a larger batch{}or larger images",
      tensors[static_cast<std::size_t>(weight.id())].name,
      x.builder().micro_batches() > 1 ? ", fewer micro-batches " : " "));
}

ConvOptions conv_options(const ConvSpec& spec) {
  return {.stride = spec.stride.list(), .padding = spec.padding.list(), .groups = spec.groups};
}

}  // namespace

ParameterInit normal(double deviation) {
  return [deviation](const Shape&) { return init::normal(0, deviation); };
}

ParameterInit zeros() {
  return [](const Shape&) { return init::zeros(); };
}

Value conv(Value x, std::string_view name, const ConvSpec& spec) {
  Builder& builder = x.builder();
  Builder::Scope scope(builder, name);
  const Shape shape = {spec.channels, x.size(1) / spec.groups, spec.kernel.height,
                       spec.kernel.width};
  Value weight = builder.parameter("weight", shape, spec.weight(shape));
  Value bias = bias_parameter(builder, spec.bias, spec.channels, shape);
  return conv2d(x, weight, bias, conv_options(spec));
}

Value conv_transpose(Value x, std::string_view name, const ConvSpec& spec) {
  Builder& builder = x.builder();
  Builder::Scope scope(builder, name);
  const Shape shape = {x.size(1), spec.channels / spec.groups, spec.kernel.height,
                       spec.kernel.width};
  Value weight = builder.parameter("weight", shape, spec.weight(shape));
  Value bias = bias_parameter(builder, spec.bias, spec.channels, shape);
  return conv_transpose2d(x, weight, bias, conv_options(spec));
}

Value batch_norm(Value x, std::string_view name, double epsilon) {
  Builder& builder = x.builder();
  Builder::Scope scope(builder, name);
  const Shape channels = {x.size(1)};
  Value weight = builder.parameter("weight", channels, init::ones());
  require_variance(x, weight);
  Value bias = builder.parameter("bias", channels, init::zeros());
  Value mean = builder.buffer("running_mean", channels, init::zeros());
  Value variance = builder.buffer("running_var", channels, init::ones());
  return lowtide::batch_norm(x, weight, bias, mean, variance, 0.1, epsilon);
}

Value conv_bn_relu(Value x, std::string_view name, std::string_view norm_name,
                   const ConvSpec& spec) {
  return relu(batch_norm(conv(x, name, spec), norm_name));
}

Value linear(Value x, std::string_view name, const LinearSpec& spec) {
  Builder& builder = x.builder();
  Builder::Scope scope(builder, name);
  const Shape shape = {spec.width, x.size(-1)};
  Value weight = builder.parameter("weight", shape, spec.weight(shape));
  Value bias = bias_parameter(builder, spec.bias, spec.width, shape);
  return lowtide::linear(x, weight, bias);
}

Value layer_norm(Value x, std::string_view name, double epsilon) {
  Builder& builder = x.builder();
  Builder::Scope scope(builder, name);
  Value weight = builder.parameter("weight", {x.size(-1)}, init::ones());
  Value bias = builder.parameter("bias", {x.size(-1)}, init::zeros());
  return lowtide::layer_norm(x, weight, bias, epsilon);
}

Embedding embedding(Value indices, std::string_view name, std::int64_t count, std::int64_t width,
                    double deviation) {
  Builder& builder = indices.builder();
  Builder::Scope scope(builder, name);
  Value table = builder.parameter("weight", {count, width}, init::normal(0, deviation));
  return {table, lowtide::embedding(table, indices)};
}

Value image_input(Builder& builder, const ModelOptions& options, std::int64_t smallest,
                  std::int64_t channels) {
  if (options.image < smallest) {
    throw InputError(fmt::format("images of {0} x {0} are too small: this model needs {1} x {1}",
                                 options.image, smallest));
  }
  return builder.input("input", {options.batch, channels, options.image, options.image});
}

Value token_input(Builder& builder, const ModelOptions& options) {
  return builder.input("input", {options.batch, options.sequence}, DType::i64);
}

ModelParts with_cross_entropy(Value input, Value logits, bool class_last) {
  Shape shape = logits.shape();
  const std::int64_t classes = shape[class_last ? shape.size() - 1 : 1];
  shape.erase(class_last ? shape.end() - 1 : shape.begin() + 1);
  Value target = logits.builder().input("target", shape, DType::i64, Role::target);
  Value loss = class_last ? cross_entropy(reshape(logits, {-1, classes}), reshape(target, {-1}))
                          : cross_entropy(logits, target);
  return {input, target, logits, loss};
}

void require_multiple(std::string_view what, std::int64_t value, std::int64_t divisor) {
  if (value % divisor == 0) return;
  throw InputError(fmt::format("{} must be a multiple of {}: {} is not", what, divisor, value));
}

}  // namespace lowtide::models::layers
