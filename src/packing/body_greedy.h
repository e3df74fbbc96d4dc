#pragma once

#include <cstdint>
#include <vector>

#include "base/control.h"
#include "packing/packing.h"

namespace lowtide::packing {

/// Buffers that move together.
struct Body {
  std::vector<std::int32_t> members;
  std::vector<Bytes> inner;  ///< per member: how far it lies behind the offset of the body
  Buffer block;              ///< large enough for all, and alive while any is
};

/// Offsets, one per body, at which no two members that are alive together overlap. In some order
/// each body takes the lowest offset that is free for all its members; orders are improved by
/// swapping two bodies, while an eighth of the goal's work lasts. Those with a fixed offset come
/// first and may not contradict each other. Deterministic but for time limits.
std::vector<Bytes> greedy_bodies(const std::vector<Buffer>& buffers,
                                 const std::vector<Body>& bodies, const PackingGoal& goal,
                                 const Control& control);

}  // namespace lowtide::packing
