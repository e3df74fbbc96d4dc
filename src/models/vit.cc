#include <fmt/format.h>

#include "models/families.h"
#include "models/transformer.h"

namespace lowtide::models {
namespace {

constexpr std::int64_t kPatch = 16;
constexpr double kNormEpsilon = 1e-6;

/// A class token before the patches, then learned positions.
Value embed(Value images, const ModelOptions& options) {
  Builder& builder = images.builder();
  Value patches = layers::conv(images, "patch_embed.proj",
                               {.channels = options.width,
                                .kernel = kPatch,
                                .stride = kPatch,
                                .weight = init::fan_in_uniform,
                                .bias = init::fan_in_uniform});
  patches = transpose(flatten(patches, 2), 1, 2);
  Value token = builder.parameter("cls_token", {1, 1, options.width}, init::normal(0, 1e-6));
  Value x = cat({expand(token, {options.batch, 1, options.width}), patches}, 1);
  Value positions = builder.parameter("pos_embed", {1, x.size(1), options.width},
                                      init::normal(0, layers::kTransformerDeviation));
  return x + positions;
}

ModelParts build_vit(Builder& builder, const ModelOptions& options) {
  layers::require_heads(options);
  layers::require_multiple("image", options.image, kPatch);
  Value input = layers::image_input(builder, options, kPatch);
  Value x = embed(input, options);
  const layers::TransformerBlock block = {
      .heads = options.heads,
      .hidden_dropout = options.dropout,
      .dropout = options.dropout,
      .epsilon = kNormEpsilon,
      .residual_weight = layers::normal(layers::kTransformerDeviation)};
  for (std::int64_t i = 0; i < options.layers; ++i) {
    Builder::Scope scope(builder, fmt::format("blocks.{}", i));
    x = layers::transformer_block(x, block);
  }
  x = select(layers::layer_norm(x, "norm", kNormEpsilon), 1, 0);
  Value logits = layers::linear(x, "head",
                                {.width = options.classes,
                                 .weight = layers::normal(layers::kTransformerDeviation),
                                 .bias = layers::zeros()});
  return layers::with_cross_entropy(input, logits);
}

constexpr std::string_view kVitPaper =
    "Dosovitskiy et al.: An image is worth 16x16 words, transformers for image recognition at "
    "scale, 2021";

constexpr Model vit(std::string_view name, std::string_view summary, std::int64_t width,
                    std::int64_t heads) {
  return {name,
          summary,
          kVitPaper,
          Task::images,
          {.batch = 16,
           .image = 224,
           .classes = 1000,
           .layers = 12,
           .width = width,
           .heads = heads,
           .dropout = 0},
          build_vit};
}

const Model kVitModels[] = {
    vit("vit-small", "vision transformer, patches of 16, width 384", 384, 6),
    vit("vit-base", "vision transformer, patches of 16, width 768", 768, 12)};

}  // namespace

std::span<const Model> vit_models() { return kVitModels; }

}  // namespace lowtide::models
