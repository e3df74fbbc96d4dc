#include <fmt/format.h>

#include <array>

#include "models/families.h"
#include "models/layers.h"

namespace lowtide::models {
namespace {

using Blocks = std::array<int, 4>;  ///< residual blocks of each stage

/// The input in the shape of the block's result: itself, or projected.
Value shortcut(Value x, std::int64_t channels, std::int64_t stride) {
  if (stride == 1 && x.size(1) == channels) return x;
  Value projected = layers::conv(x, "downsample.0", {.channels = channels, .stride = stride});
  return layers::batch_norm(projected, "downsample.1");
}

Value basic_block(Value x, std::int64_t width, std::int64_t stride) {
  Value y = layers::conv_bn_relu(x, "conv1", "bn1",
                                 {.channels = width, .kernel = 3, .stride = stride, .padding = 1});
  y = layers::conv(y, "conv2", {.channels = width, .kernel = 3, .padding = 1});
  y = layers::batch_norm(y, "bn2");
  return relu(y + shortcut(x, width, stride));
}

Value bottleneck_block(Value x, std::int64_t width, std::int64_t stride) {
  const std::int64_t channels = 4 * width;
  Value y = layers::conv_bn_relu(x, "conv1", "bn1", {.channels = width});
  y = layers::conv_bn_relu(y, "conv2", "bn2",
                           {.channels = width, .kernel = 3, .stride = stride, .padding = 1});
  y = layers::batch_norm(layers::conv(y, "conv3", {.channels = channels}), "bn3");
  return relu(y + shortcut(x, channels, stride));
}

ModelParts build_resnet(Builder& builder, const ModelOptions& options, const Blocks& blocks,
                        Value (*block)(Value, std::int64_t, std::int64_t)) {
  Value input = layers::image_input(builder, options, 32);
  Value x = layers::conv_bn_relu(input, "conv1", "bn1",
                                 {.channels = 64, .kernel = 7, .stride = 2, .padding = 3});
  x = max_pool2d(x, {.kernel = {3, 3}, .stride = {2, 2}, .padding = {1, 1}});
  for (std::size_t stage = 0; stage < blocks.size(); ++stage) {
    for (int i = 0; i < blocks[stage]; ++i) {
      Builder::Scope scope(builder, fmt::format("layer{}.{}", stage + 1, i));
      x = block(x, 64 << stage, stage > 0 && i == 0 ? 2 : 1);
    }
  }
  x = flatten(global_avg_pool2d(x), 1);
  return layers::with_cross_entropy(input, layers::linear(x, "fc", {.width = options.classes}));
}

ModelParts build_resnet18(Builder& builder, const ModelOptions& options) {
  return build_resnet(builder, options, {2, 2, 2, 2}, basic_block);
}

ModelParts build_resnet50(Builder& builder, const ModelOptions& options) {
  return build_resnet(builder, options, {3, 4, 6, 3}, bottleneck_block);
}

ModelParts build_resnet152(Builder& builder, const ModelOptions& options) {
  return build_resnet(builder, options, {3, 8, 36, 3}, bottleneck_block);
}

constexpr std::string_view kResnetPaper =
    "He, Zhang, Ren, Sun: Deep residual learning for image recognition, 2016";
constexpr ModelOptions kResnetDefaults = {.batch = 16, .image = 224, .classes = 1000};

const Model kResnetModels[] = {{"resnet18", "8 residual blocks of two convolutions", kResnetPaper,
                                Task::images, kResnetDefaults, build_resnet18},
                               {"resnet50", "16 residual bottleneck blocks", kResnetPaper,
                                Task::images, kResnetDefaults, build_resnet50},
                               {"resnet152", "50 residual bottleneck blocks", kResnetPaper,
                                Task::images, kResnetDefaults, build_resnet152}};

}  // namespace

std::span<const Model> resnet_models() { return kResnetModels; }

}  // namespace lowtide::models
