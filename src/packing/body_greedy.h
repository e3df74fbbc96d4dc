#pragma once

#include <cstdint>
#include <vector>

#include "base/control.h"
#include "packing/packing.h"

namespace lowtide::packing {

/// Buffers that keep their relative offsets.
struct Body {
  std::vector<std::int32_t> members;
  std::vector<Bytes> inner;  ///< per member: its offset minus the body's offset
  Buffer block;              ///< large enough for all members, and alive while any is
};

/// Offsets, one per body, at which no two members that are alive together overlap. Bodies in some
/// order take the lowest offset that is free for all members; swaps of two bodies improve the
/// order, for up to an eighth of the goal's work. Bodies with a fixed offset come first and must
/// not contradict each other. Deterministic except for time limits.
std::vector<Bytes> greedy_bodies(const std::vector<Buffer>& buffers,
                                 const std::vector<Body>& bodies, const PackingGoal& goal,
                                 const Control& control);

}  // namespace lowtide::packing
