#include "models/families.h"
#include "models/vgg_features.h"

namespace lowtide::models {
namespace {

Value default_conv(Value x, std::string_view name, std::int64_t channels, std::int64_t kernel = 1) {
  return layers::conv(x, name,
                      {.channels = channels,
                       .kernel = kernel,
                       .padding = kernel / 2,
                       .weight = init::fan_in_uniform,
                       .bias = init::fan_in_uniform});
}

/// A learned upsampling by `factor`.
Value upsample_by(Value x, std::string_view name, std::int64_t factor) {
  return layers::conv_transpose(x, name,
                                {.channels = x.size(1),
                                 .kernel = 2 * factor,
                                 .stride = factor,
                                 .padding = factor / 2,
                                 .weight = init::fan_in_uniform});
}

/// The head of VGG16 as convolutions, its scores upsampled and summed with those of the fourth and
/// third pooling.
ModelParts build_fcn8(Builder& builder, const ModelOptions& options) {
  layers::require_multiple("image", options.image, 32);
  Value input = layers::image_input(builder, options, 32);
  const std::vector<Value> pooled = layers::vgg_features(input, layers::kVgg16);
  Value x = default_conv(pooled[4], "fc6", options.width, 7);
  x = dropout(relu(x), options.dropout);
  x = dropout(relu(default_conv(x, "fc7", options.width)), options.dropout);
  x = upsample_by(default_conv(x, "score_fr", options.classes), "upscore2", 2);
  x = x + default_conv(pooled[3], "score_pool4", options.classes);
  x = upsample_by(x, "upscore_pool4", 2);
  x = x + default_conv(pooled[2], "score_pool3", options.classes);
  return layers::with_cross_entropy(input, upsample_by(x, "upscore8", 8));
}

const Model kFcnModels[] = {
    {"fcn8",
     "fully convolutional VGG16 with skips at strides 8 and 16",
     "Long, Shelhamer, Darrell: Fully convolutional networks for semantic segmentation, 2015",
     Task::segmentation,
     {.batch = 4, .image = 224, .classes = 21, .width = 4096, .dropout = 0.5},
     build_fcn8}};

}  // namespace

std::span<const Model> fcn_models() { return kFcnModels; }

}  // namespace lowtide::models
