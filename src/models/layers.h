#pragma once

#include <functional>
#include <string_view>

#include "builder/functions.h"
#include "models/model.h"

/// The layers of the zoo's models. Each layer defines its parameters in a scope of its name, under
/// the names of the PyTorch module ("weight", "bias", "running_mean", ...).
namespace lowtide::models::layers {

/// Height and width; one number stands for both.
struct Size2 {
  std::int64_t height;
  std::int64_t width;
  constexpr Size2(std::int64_t both) : height(both), width(both) {}  // NOLINT: implicit on purpose
  constexpr Size2(std::int64_t h, std::int64_t w) : height(h), width(w) {}
  std::vector<std::int64_t> list() const { return {height, width}; }
};

/// The first value of a parameter, given the shape of the layer's weight. Empty: no parameter.
using ParameterInit = std::function<Initializer(const Shape& weight_shape)>;
ParameterInit normal(double deviation);
ParameterInit zeros();

/// A convolution with `channels` outputs. Torch's own default is weight = fan_in_uniform.
struct ConvSpec {
  std::int64_t channels = 0;
  Size2 kernel = 1;
  Size2 stride = 1;
  Size2 padding = 0;
  std::int64_t groups = 1;
  ParameterInit weight = init::kaiming_normal;
  ParameterInit bias = {};
};
Value conv(Value x, std::string_view name, const ConvSpec& spec);
Value conv_transpose(Value x, std::string_view name, const ConvSpec& spec);

/// Batch normalization in training mode. Throws InputError when a channel has only one value, since
/// then its variance is undefined.
Value batch_norm(Value x, std::string_view name, double epsilon = 1e-5);

/// Convolution `name`, batch normalization `norm_name`, then ReLU.
Value conv_bn_relu(Value x, std::string_view name, std::string_view norm_name,
                   const ConvSpec& spec);

struct LinearSpec {
  std::int64_t width = 0;
  ParameterInit weight = init::fan_in_uniform;
  ParameterInit bias = init::fan_in_uniform;
};
Value linear(Value x, std::string_view name, const LinearSpec& spec);

/// Over the last dimension.
Value layer_norm(Value x, std::string_view name, double epsilon = 1e-5);

/// Rows of a table of `count` x `width`; normal with `deviation`.
struct Embedding {
  Value table;
  Value rows;
};
Embedding embedding(Value indices, std::string_view name, std::int64_t count, std::int64_t width,
                    double deviation = 1);

/// A batch of square images of the options' size. Throws InputError when they are smaller than
/// `smallest`.
Value image_input(Builder& builder, const ModelOptions& options, std::int64_t smallest,
                  std::int64_t channels = 3);
/// A batch of token sequences, i64 (batch, sequence).
Value token_input(Builder& builder, const ModelOptions& options);

/// Ends a model: the target of the logits' batch, and the mean cross entropy. The logits are
/// (N, C), (N, C, H, W), or with `class_last` (N, T, C).
ModelParts with_cross_entropy(Value input, Value logits, bool class_last = false);

/// Throws InputError unless `divisor` divides `value`.
void require_multiple(std::string_view what, std::int64_t value, std::int64_t divisor);

}  // namespace lowtide::models::layers
