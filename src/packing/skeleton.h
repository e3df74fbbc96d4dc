#pragma once

#include <cstdint>
#include <vector>

#include "packing/instance.h"

namespace lowtide::packing {

/// Only the large items of an instance. Many small items would break up the space of the large
/// ones; without them a branching search gets far. A height that no packing of the large items
/// reaches is impossible for all items, too.
struct Skeleton {
  Instance instance;
  std::vector<std::int32_t> items;  ///< per item of the skeleton: its index in the whole
};

/// The items of at least `least` bytes, and all fixed items.
Skeleton skeleton_of(const Instance& whole, Bytes least);

/// Skeletons to try, by ascending number of items; the last has all items. Their sizes differ
/// clearly.
std::vector<Skeleton> skeletons(const Instance& whole);

/// Per item of the whole: its offset in the skeleton's packing, or EjectionSearch::kUnplaced.
std::vector<Bytes> offsets_of_whole(const Skeleton& skeleton, const std::vector<Bytes>& offsets,
                                    const Instance& whole);

}  // namespace lowtide::packing
