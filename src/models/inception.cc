#include "models/families.h"
#include "models/layers.h"

namespace lowtide::models {
namespace {

using layers::ConvSpec;
using layers::Size2;

constexpr double kEpsilon = 1e-3;   ///< of every batch normalization
constexpr double kAuxWeight = 0.4;  ///< of the auxiliary head's loss, as torchvision trains it

/// torchvision's BasicConv2d. A normal replaces its truncated normal (cut off at >= 20 deviations).
Value unit(Value x, std::string_view name, ConvSpec spec, double deviation = 0.1) {
  Builder::Scope scope(x.builder(), name);
  spec.weight = layers::normal(deviation);
  return relu(layers::batch_norm(layers::conv(x, "conv", spec), "bn", kEpsilon));
}

ConvSpec plain(std::int64_t channels) { return {.channels = channels}; }

/// Keeps height and width.
ConvSpec same(std::int64_t channels, Size2 kernel) {
  return {.channels = channels,
          .kernel = kernel,
          .padding = Size2(kernel.height / 2, kernel.width / 2)};
}

/// 3x3 that halves height and width.
ConvSpec halving(std::int64_t channels) { return {.channels = channels, .kernel = 3, .stride = 2}; }

Value halving_pool(Value x) { return max_pool2d(x, {.kernel = {3, 3}, .stride = {2, 2}}); }

Value pool_branch(Value x, std::int64_t channels) {
  Value pooled = avg_pool2d(x, {.kernel = {3, 3}, .stride = {1, 1}, .padding = {1, 1}});
  return unit(pooled, "branch_pool", plain(channels));
}

Value stem(Value x) {
  x = unit(x, "Conv2d_1a_3x3", halving(32));
  x = unit(x, "Conv2d_2a_3x3", {.channels = 32, .kernel = 3});
  x = unit(x, "Conv2d_2b_3x3", same(64, 3));
  x = halving_pool(x);
  x = unit(x, "Conv2d_3b_1x1", plain(80));
  x = unit(x, "Conv2d_4a_3x3", {.channels = 192, .kernel = 3});
  return halving_pool(x);
}

Value mixed_a(Value x, std::string_view name, std::int64_t pool_channels) {
  Builder::Scope scope(x.builder(), name);
  Value b1 = unit(x, "branch1x1", plain(64));
  Value b5 = unit(unit(x, "branch5x5_1", plain(48)), "branch5x5_2", same(64, 5));
  Value b3 = unit(x, "branch3x3dbl_1", plain(64));
  b3 = unit(b3, "branch3x3dbl_2", same(96, 3));
  b3 = unit(b3, "branch3x3dbl_3", same(96, 3));
  return cat({b1, b5, b3, pool_branch(x, pool_channels)}, 1);
}

Value mixed_b(Value x, std::string_view name) {
  Builder::Scope scope(x.builder(), name);
  Value b3 = unit(x, "branch3x3", halving(384));
  Value dbl = unit(x, "branch3x3dbl_1", plain(64));
  dbl = unit(dbl, "branch3x3dbl_2", same(96, 3));
  dbl = unit(dbl, "branch3x3dbl_3", halving(96));
  return cat({b3, dbl, halving_pool(x)}, 1);
}

Value mixed_c(Value x, std::string_view name, std::int64_t width) {
  Builder::Scope scope(x.builder(), name);
  const Size2 row(1, 7), column(7, 1);
  Value b1 = unit(x, "branch1x1", plain(192));
  Value b7 = unit(x, "branch7x7_1", plain(width));
  b7 = unit(b7, "branch7x7_2", same(width, row));
  b7 = unit(b7, "branch7x7_3", same(192, column));
  Value dbl = unit(x, "branch7x7dbl_1", plain(width));
  dbl = unit(dbl, "branch7x7dbl_2", same(width, column));
  dbl = unit(dbl, "branch7x7dbl_3", same(width, row));
  dbl = unit(dbl, "branch7x7dbl_4", same(width, column));
  dbl = unit(dbl, "branch7x7dbl_5", same(192, row));
  return cat({b1, b7, dbl, pool_branch(x, 192)}, 1);
}

Value mixed_d(Value x, std::string_view name) {
  Builder::Scope scope(x.builder(), name);
  Value b3 = unit(unit(x, "branch3x3_1", plain(192)), "branch3x3_2", halving(320));
  Value b7 = unit(x, "branch7x7x3_1", plain(192));
  b7 = unit(b7, "branch7x7x3_2", same(192, Size2(1, 7)));
  b7 = unit(b7, "branch7x7x3_3", same(192, Size2(7, 1)));
  b7 = unit(b7, "branch7x7x3_4", halving(192));
  return cat({b3, b7, halving_pool(x)}, 1);
}

/// A row and a column convolution of the same input, concatenated.
Value fork(Value x, std::string_view row_name, std::string_view column_name) {
  Value row = unit(x, row_name, same(384, Size2(1, 3)));
  Value column = unit(x, column_name, same(384, Size2(3, 1)));
  return cat({row, column}, 1);
}

Value mixed_e(Value x, std::string_view name) {
  Builder::Scope scope(x.builder(), name);
  Value b1 = unit(x, "branch1x1", plain(320));
  Value b3 = fork(unit(x, "branch3x3_1", plain(384)), "branch3x3_2a", "branch3x3_2b");
  Value dbl = unit(x, "branch3x3dbl_1", plain(448));
  dbl = unit(dbl, "branch3x3dbl_2", same(384, 3));
  dbl = fork(dbl, "branch3x3dbl_3a", "branch3x3dbl_3b");
  return cat({b1, b3, dbl, pool_branch(x, 192)}, 1);
}

Value classify(Value x, std::int64_t classes, double deviation) {
  return layers::linear(flatten(x, 1), "fc",
                        {.width = classes, .weight = layers::normal(deviation)});
}

Value auxiliary_head(Value x, std::int64_t classes) {
  Builder::Scope scope(x.builder(), "AuxLogits");
  x = avg_pool2d(x, {.kernel = {5, 5}, .stride = {3, 3}});
  x = unit(x, "conv0", plain(128));
  x = unit(x, "conv1", {.channels = 768, .kernel = 5}, 0.01);
  return classify(global_avg_pool2d(x), classes, 0.001);
}

ModelParts build_inceptionv3(Builder& builder, const ModelOptions& options) {
  constexpr std::int64_t kSmallest = 299;  // else the auxiliary head's 5x5 does not fit
  Value input = layers::image_input(builder, options, kSmallest);
  Value x = stem(input);
  x = mixed_a(x, "Mixed_5b", 32);
  x = mixed_a(x, "Mixed_5c", 64);
  x = mixed_a(x, "Mixed_5d", 64);
  x = mixed_b(x, "Mixed_6a");
  x = mixed_c(x, "Mixed_6b", 128);
  x = mixed_c(x, "Mixed_6c", 160);
  x = mixed_c(x, "Mixed_6d", 160);
  x = mixed_c(x, "Mixed_6e", 192);
  Value auxiliary = auxiliary_head(x, options.classes);
  x = mixed_d(x, "Mixed_7a");
  x = mixed_e(x, "Mixed_7b");
  x = mixed_e(x, "Mixed_7c");
  x = dropout(global_avg_pool2d(x), options.dropout);
  ModelParts parts = layers::with_cross_entropy(input, classify(x, options.classes, 0.1));
  parts.loss = parts.loss + kAuxWeight * cross_entropy(auxiliary, parts.target);
  return parts;
}

const Model kInceptionModels[] = {
    {"inceptionv3",
     "parallel factorized convolutions, trained with an auxiliary head",
     "Szegedy et al.: Rethinking the Inception architecture for computer vision, 2016",
     Task::images,
     {.batch = 8, .image = 299, .classes = 1000, .dropout = 0.5},
     build_inceptionv3}};

}  // namespace

std::span<const Model> inception_models() { return kInceptionModels; }

}  // namespace lowtide::models
