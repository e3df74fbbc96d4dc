#include <fmt/format.h>

#include <algorithm>

#include "models/families.h"
#include "models/vgg_features.h"

namespace lowtide::models {
namespace layers {

std::int64_t vgg_channels(std::size_t stage) { return 64 << std::min<std::size_t>(stage, 3); }

std::vector<Value> vgg_features(Value x, const VggStages& stages) {
  std::vector<Value> pooled;
  int index = 0;  // of the module in torchvision's Sequential
  for (std::size_t stage = 0; stage < stages.size(); ++stage) {
    for (int i = 0; i < stages[stage]; ++i, index += 2) {
      x = relu(conv(x, fmt::format("features.{}", index),
                    {.channels = vgg_channels(stage), .kernel = 3, .padding = 1, .bias = zeros()}));
    }
    x = max_pool2d(x, {.kernel = {2, 2}});
    ++index;
    pooled.push_back(x);
  }
  return pooled;
}

}  // namespace layers

namespace {

/// Pools to the input size of the head. Nothing to do for the usual 224 x 224 images.
Value to_head_size(Value x) {
  constexpr std::int64_t kSide = 7;
  if (x.size(2) == kSide && x.size(3) == kSide) return x;
  return adaptive_avg_pool2d(x, kSide, kSide);
}

Value head_layer(Value x, std::string_view name, std::int64_t width) {
  return layers::linear(x, name,
                        {.width = width, .weight = layers::normal(0.01), .bias = layers::zeros()});
}

ModelParts build_vgg(Builder& builder, const ModelOptions& options,
                     const layers::VggStages& stages) {
  Value input = layers::image_input(builder, options, 32);
  Value x = layers::vgg_features(input, stages).back();
  x = flatten(to_head_size(x), 1);
  x = dropout(relu(head_layer(x, "classifier.0", options.width)), options.dropout);
  x = dropout(relu(head_layer(x, "classifier.3", options.width)), options.dropout);
  return layers::with_cross_entropy(input, head_layer(x, "classifier.6", options.classes));
}

ModelParts build_vgg16(Builder& builder, const ModelOptions& options) {
  return build_vgg(builder, options, layers::kVgg16);
}

ModelParts build_vgg19(Builder& builder, const ModelOptions& options) {
  return build_vgg(builder, options, layers::kVgg19);
}

constexpr std::string_view kVggPaper =
    "Simonyan, Zisserman: Very deep convolutional networks for large-scale image recognition, 2015";
constexpr ModelOptions kVggDefaults = {
    .batch = 8, .image = 224, .classes = 1000, .width = 4096, .dropout = 0.5};

const Model kVggModels[] = {{"vgg16", "13 plain 3x3 convolutions and a wide head", kVggPaper,
                             Task::images, kVggDefaults, build_vgg16},
                            {"vgg19", "16 plain 3x3 convolutions and a wide head", kVggPaper,
                             Task::images, kVggDefaults, build_vgg19}};

}  // namespace

std::span<const Model> vgg_models() { return kVggModels; }

}  // namespace lowtide::models
