#include <fmt/format.h>

#include "models/families.h"
#include "models/vgg_features.h"

namespace lowtide::models {
namespace {

/// `count` convolutions with batch normalization; the last one has `channels_out`. Numbered as a
/// Sequential of three modules each.
Value conv_stage(Value x, std::string_view name, int count, std::int64_t channels,
                 std::int64_t channels_out) {
  Builder::Scope scope(x.builder(), name);
  for (int i = 0; i < count; ++i) {
    x = layers::conv_bn_relu(x, fmt::format("{}", 3 * i), fmt::format("{}", 3 * i + 1),
                             {.channels = i + 1 < count ? channels : channels_out,
                              .kernel = 3,
                              .padding = 1,
                              .weight = init::fan_in_uniform,
                              .bias = init::fan_in_uniform});
  }
  return x;
}

struct Pooled {
  Value indices;
  std::int64_t height, width;  ///< before pooling
};

/// The encoder of VGG16, and its mirror image that undoes each pooling at the recorded positions.
ModelParts build_segnet(Builder& builder, const ModelOptions& options) {
  const layers::VggStages& stages = layers::kVgg16;
  Value input = layers::image_input(builder, options, 32);
  Value x = input;
  std::vector<Pooled> pools;
  for (std::size_t i = 0; i < stages.size(); ++i) {
    const std::int64_t channels = layers::vgg_channels(i);
    x = conv_stage(x, fmt::format("encoder.{}", i), stages[i], channels, channels);
    const std::int64_t height = x.size(2), width = x.size(3);
    auto [values, indices] = max_pool2d_with_indices(x, {.kernel = {2, 2}});
    pools.push_back({indices, height, width});
    x = values;
  }
  for (std::size_t i = stages.size(); i-- > 0;) {
    x = max_unpool2d(x, pools[i].indices, pools[i].height, pools[i].width);
    const bool last = i == 0;
    x = conv_stage(x, fmt::format("decoder.{}", stages.size() - 1 - i),
                   last ? stages[i] - 1 : stages[i], layers::vgg_channels(i),
                   layers::vgg_channels(last ? 0 : i - 1));
  }
  Value logits = layers::conv(x, "head",
                              {.channels = options.classes,
                               .kernel = 3,
                               .padding = 1,
                               .weight = init::fan_in_uniform,
                               .bias = init::fan_in_uniform});
  return layers::with_cross_entropy(input, logits);
}

const Model kSegnetModels[] = {
    {"segnet",
     "VGG16 encoder and a decoder that unpools at the recorded maxima",
     "Badrinarayanan, Kendall, Cipolla: SegNet, a deep convolutional encoder-decoder architecture "
     "for image segmentation, 2017",
     Task::segmentation,
     {.batch = 4, .image = 224, .classes = 21},
     build_segnet}};

}  // namespace

std::span<const Model> segnet_models() { return kSegnetModels; }

}  // namespace lowtide::models
