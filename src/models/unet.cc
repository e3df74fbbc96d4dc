#include <fmt/format.h>

#include "base/error.h"
#include "models/families.h"
#include "models/layers.h"

namespace lowtide::models {
namespace {

/// Two 3x3 convolutions with batch normalization; numbered as a Sequential of six modules.
Value double_conv(Value x, std::string_view name, std::int64_t channels) {
  Builder::Scope scope(x.builder(), name);
  const layers::ConvSpec spec = {
      .channels = channels, .kernel = 3, .padding = 1, .weight = init::fan_in_uniform};
  x = layers::conv_bn_relu(x, "0", "1", spec);
  return layers::conv_bn_relu(x, "3", "4", spec);
}

Value upsample_by_two(Value x, std::string_view name) {
  return layers::conv_transpose(x, name,
                                {.channels = x.size(1) / 2,
                                 .kernel = 2,
                                 .stride = 2,
                                 .weight = init::fan_in_uniform,
                                 .bias = init::fan_in_uniform});
}

ModelParts build_unet(Builder& builder, const ModelOptions& options) {
  if (options.layers > 16) throw InputError("a U-Net of more than 16 levels is not supported");
  layers::require_multiple("image", options.image, std::int64_t{1} << options.layers);
  Value input = layers::image_input(builder, options, 1);
  Value x = double_conv(input, "stem", options.width);
  std::vector<Value> skips;
  for (std::int64_t level = 0; level < options.layers; ++level) {
    skips.push_back(x);
    x = double_conv(max_pool2d(x, {.kernel = {2, 2}}), fmt::format("down.{}", level),
                    2 * x.size(1));
  }
  for (std::int64_t level = 0; level < options.layers; ++level) {
    Value skip = skips.back();
    skips.pop_back();
    Value joined = cat({skip, upsample_by_two(x, fmt::format("up.{}", level))}, 1);
    x = double_conv(joined, fmt::format("merge.{}", level), skip.size(1));
  }
  Value logits = layers::conv(
      x, "head",
      {.channels = options.classes, .weight = init::fan_in_uniform, .bias = init::fan_in_uniform});
  return layers::with_cross_entropy(input, logits);
}

const Model kUnetModels[] = {
    {"unet",
     "encoder and decoder with skips, batch normalization",
     "Ronneberger, Fischer, Brox: U-Net, convolutional networks for biomedical image "
     "segmentation, 2015",
     Task::segmentation,
     {.batch = 8, .image = 256, .classes = 4, .layers = 4, .width = 32},
     build_unet}};

}  // namespace

std::span<const Model> unet_models() { return kUnetModels; }

}  // namespace lowtide::models
