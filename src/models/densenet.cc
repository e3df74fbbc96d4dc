#include <fmt/format.h>

#include <cmath>

#include "models/families.h"
#include "models/layers.h"

namespace lowtide::models {
namespace {

constexpr int kBlocks[] = {6, 12, 24, 16};  ///< dense layers of each block
constexpr std::int64_t kGrowth = 32;        ///< channels that a dense layer adds
constexpr std::int64_t kBottleneck = 4 * kGrowth;

/// He et al. 2015 with fan-in: torchvision's default for DenseNet.
Initializer kaiming_fan_in(const Shape& weight) {
  return init::normal(0, std::sqrt(2.0 / static_cast<double>(weight[1] * weight[2] * weight[3])));
}

layers::ConvSpec conv_spec(std::int64_t channels, std::int64_t kernel) {
  return {.channels = channels, .kernel = kernel, .padding = kernel / 2, .weight = kaiming_fan_in};
}

Value norm_relu_conv(Value x, std::string_view norm, std::string_view conv,
                     const layers::ConvSpec& spec) {
  return layers::conv(relu(layers::batch_norm(x, norm)), conv, spec);
}

/// Each layer reads the outputs of all earlier layers of the block.
Value dense_block(Value x, int count) {
  std::vector<Value> features = {x};
  for (int i = 0; i < count; ++i) {
    Builder::Scope scope(x.builder(), fmt::format("denselayer{}", i + 1));
    Value y = norm_relu_conv(cat(features, 1), "norm1", "conv1", conv_spec(kBottleneck, 1));
    features.push_back(norm_relu_conv(y, "norm2", "conv2", conv_spec(kGrowth, 3)));
  }
  return cat(features, 1);
}

/// Halves channels, height and width.
Value transition(Value x) {
  Value y = norm_relu_conv(x, "norm", "conv", conv_spec(x.size(1) / 2, 1));
  return avg_pool2d(y, {.kernel = {2, 2}});
}

Value dense_features(Value x) {
  Builder& builder = x.builder();
  Builder::Scope scope(builder, "features");
  x = layers::conv_bn_relu(
      x, "conv0", "norm0",
      {.channels = 2 * kGrowth, .kernel = 7, .stride = 2, .padding = 3, .weight = kaiming_fan_in});
  x = max_pool2d(x, {.kernel = {3, 3}, .stride = {2, 2}, .padding = {1, 1}});
  for (std::size_t i = 0; i < std::size(kBlocks); ++i) {
    if (i > 0) {
      Builder::Scope between(builder, fmt::format("transition{}", i));
      x = transition(x);
    }
    Builder::Scope block(builder, fmt::format("denseblock{}", i + 1));
    x = dense_block(x, kBlocks[i]);
  }
  return relu(layers::batch_norm(x, "norm5"));
}

ModelParts build_densenet121(Builder& builder, const ModelOptions& options) {
  Value input = layers::image_input(builder, options, 32);
  Value x = flatten(global_avg_pool2d(dense_features(input)), 1);
  Value logits =
      layers::linear(x, "classifier", {.width = options.classes, .bias = layers::zeros()});
  return layers::with_cross_entropy(input, logits);
}

const Model kDensenetModels[] = {
    {"densenet121",
     "58 dense layers; each reads all earlier ones of its block",
     "Huang, Liu, van der Maaten, Weinberger: Densely connected convolutional networks, 2017",
     Task::images,
     {.batch = 8, .image = 224, .classes = 1000},
     build_densenet121}};

}  // namespace

std::span<const Model> densenet_models() { return kDensenetModels; }

}  // namespace lowtide::models
