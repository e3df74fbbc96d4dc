#pragma once

#include <span>
#include <vector>

#include "models/layers.h"

namespace lowtide::models::layers {

/// Convolutions of each of VGG's five stages; a stage ends with a max pooling that halves.
using VggStages = std::vector<int>;

inline const VggStages kVgg16 = {2, 2, 3, 3, 3};
inline const VggStages kVgg19 = {2, 2, 4, 4, 4};

/// Channels of a stage: 64, 128, 256, 512, 512.
std::int64_t vgg_channels(std::size_t stage);

/// The pooled result of each stage. Names "features.0" ... as torchvision numbers them.
std::vector<Value> vgg_features(Value x, const VggStages& stages);

}  // namespace lowtide::models::layers
