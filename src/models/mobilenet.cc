#include <fmt/format.h>

#include "models/families.h"
#include "models/layers.h"

namespace lowtide::models {
namespace {

/// A 3x3 convolution of each channel by itself.
layers::ConvSpec depthwise(std::int64_t channels, std::int64_t stride) {
  return {.channels = channels, .kernel = 3, .stride = stride, .padding = 1, .groups = channels};
}

// ---- Version 1
// -----------------------------------------------------------------------------------

struct Separable {
  std::int64_t channels;
  std::int64_t stride;
};
constexpr Separable kSeparables[] = {{64, 1},  {128, 2},  {128, 1}, {256, 2}, {256, 1},
                                     {512, 2}, {512, 1},  {512, 1}, {512, 1}, {512, 1},
                                     {512, 1}, {1024, 2}, {1024, 1}};

ModelParts build_mobilenet(Builder& builder, const ModelOptions& options) {
  Value input = layers::image_input(builder, options, 32);
  Value x = layers::conv_bn_relu(input, "features.0.0", "features.0.1",
                                 {.channels = 32, .kernel = 3, .stride = 2, .padding = 1});
  int index = 1;
  for (const auto& [channels, stride] : kSeparables) {
    Builder::Scope scope(builder, fmt::format("features.{}", index++));
    x = layers::conv_bn_relu(x, "0", "1", depthwise(x.size(1), stride));
    x = layers::conv_bn_relu(x, "3", "4", {.channels = channels});
  }
  x = flatten(global_avg_pool2d(x), 1);
  Value logits = layers::linear(x, "classifier", {.width = options.classes});
  return layers::with_cross_entropy(input, logits);
}

// ---- Version 2
// -----------------------------------------------------------------------------------

Value conv_bn_relu6(Value x, const layers::ConvSpec& spec) {
  return relu6(layers::batch_norm(layers::conv(x, "0", spec), "1"));
}

/// Expands the channels, filters each, projects; adds the input when the shapes agree. Numbered as
/// torchvision's Sequential "conv" of each block.
Value inverted_residual(Value input, std::int64_t channels, std::int64_t stride,
                        std::int64_t expansion) {
  Builder& builder = input.builder();
  Builder::Scope scope(builder, "conv");
  Value x = input;
  int index = 0;
  if (expansion > 1) {
    Builder::Scope expand(builder, fmt::format("{}", index++));
    x = conv_bn_relu6(x, {.channels = expansion * input.size(1)});
  }
  {
    Builder::Scope filter(builder, fmt::format("{}", index++));
    x = conv_bn_relu6(x, depthwise(x.size(1), stride));
  }
  x = layers::conv(x, fmt::format("{}", index), {.channels = channels});
  x = layers::batch_norm(x, fmt::format("{}", index + 1));
  return stride == 1 && input.size(1) == channels ? input + x : x;
}

struct Stage {
  std::int64_t expansion, channels, blocks, stride;
};
constexpr Stage kStages[] = {{1, 16, 1, 1}, {6, 24, 2, 2},  {6, 32, 3, 2}, {6, 64, 4, 2},
                             {6, 96, 3, 1}, {6, 160, 3, 2}, {6, 320, 1, 1}};

ModelParts build_mobilenetv2(Builder& builder, const ModelOptions& options) {
  Value input = layers::image_input(builder, options, 32);
  int index = 0;
  const auto next_scope = [&] { return fmt::format("features.{}", index++); };
  Value x;
  {
    Builder::Scope scope(builder, next_scope());
    x = conv_bn_relu6(input, {.channels = 32, .kernel = 3, .stride = 2, .padding = 1});
  }
  for (const auto& [expansion, channels, blocks, stride] : kStages) {
    for (std::int64_t i = 0; i < blocks; ++i) {
      Builder::Scope scope(builder, next_scope());
      x = inverted_residual(x, channels, i == 0 ? stride : 1, expansion);
    }
  }
  {
    Builder::Scope scope(builder, next_scope());
    x = conv_bn_relu6(x, {.channels = 1280});
  }
  x = dropout(flatten(global_avg_pool2d(x), 1), options.dropout);
  Value logits = layers::linear(
      x, "classifier.1",
      {.width = options.classes, .weight = layers::normal(0.01), .bias = layers::zeros()});
  return layers::with_cross_entropy(input, logits);
}

const Model kMobilenetModels[] = {
    {"mobilenet",
     "depthwise separable convolutions",
     "Howard et al.: MobileNets, efficient convolutional neural networks for mobile vision "
     "applications, 2017",
     Task::images,
     {.batch = 16, .image = 224, .classes = 1000},
     build_mobilenet},
    {"mobilenetv2",
     "inverted residual blocks of depthwise convolutions",
     "Sandler et al.: MobileNetV2, inverted residuals and linear bottlenecks, 2018",
     Task::images,
     {.batch = 16, .image = 224, .classes = 1000, .dropout = 0.2},
     build_mobilenetv2}};

}  // namespace

std::span<const Model> mobilenet_models() { return kMobilenetModels; }

}  // namespace lowtide::models
