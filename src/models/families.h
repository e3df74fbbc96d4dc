#pragma once

#include <span>

#include "models/model.h"

/// The families of the zoo, each in the file of its name; registry.cc lists them.
namespace lowtide::models {

std::span<const Model> mlp_models();
std::span<const Model> vgg_models();
std::span<const Model> resnet_models();
std::span<const Model> mobilenet_models();
std::span<const Model> densenet_models();
std::span<const Model> inception_models();
std::span<const Model> unet_models();
std::span<const Model> fcn_models();
std::span<const Model> segnet_models();
std::span<const Model> lstm_models();
std::span<const Model> gpt_models();
std::span<const Model> vit_models();

}  // namespace lowtide::models
