#pragma once

#include <cstdint>
#include <vector>

#include "packing/instance.h"

namespace lowtide::packing {

/// The large items of an instance alone. Without the many small ones, which break up what the large
/// would fill, a search that branches gets far; and what no packing of these can reach, none of all
/// can.
struct Skeleton {
  Instance instance;
  std::vector<std::int32_t> items;  ///< per item of the skeleton: which of the whole it is
};

/// Items of at least so many bytes, and all that are fixed.
Skeleton skeleton_of(const Instance& whole, Bytes least);

/// Skeletons to try, those of fewer items first, the last of all items; none is nearly as large as
/// the next.
std::vector<Skeleton> skeletons(const Instance& whole);

/// Per item of the whole: its offset in the skeleton's packing, or EjectionSearch::kUnplaced.
std::vector<Bytes> offsets_of_whole(const Skeleton& skeleton, const std::vector<Bytes>& offsets,
                                    const Instance& whole);

}  // namespace lowtide::packing
