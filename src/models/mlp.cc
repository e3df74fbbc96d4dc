#include <fmt/format.h>

#include "models/families.h"
#include "models/layers.h"

namespace lowtide::models {
namespace {

/// layers.0 ... layers.{n-1}: linear maps with ReLU between them, on flattened grey images.
ModelParts build_mlp(Builder& builder, const ModelOptions& options) {
  Value input = layers::image_input(builder, options, 1, 1);
  Value x = flatten(input, 1);
  for (std::int64_t i = 0; i < options.layers; ++i) {
    const bool last = i + 1 == options.layers;
    x = layers::linear(x, fmt::format("layers.{}", i),
                       {.width = last ? options.classes : options.width});
    if (!last) x = dropout(relu(x), options.dropout);
  }
  return layers::with_cross_entropy(input, x);
}

const Model kMlpModels[] = {
    {"mlp",
     "multilayer perceptron on grey images such as MNIST",
     "Rumelhart, Hinton, Williams: Learning representations by back-propagating errors, 1986",
     Task::images,
     {.batch = 64, .image = 28, .classes = 10, .layers = 3, .width = 512, .dropout = 0},
     build_mlp}};

}  // namespace

std::span<const Model> mlp_models() { return kMlpModels; }

}  // namespace lowtide::models
