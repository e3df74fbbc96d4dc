#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "packing/packing.h"

namespace lowtide::packing::allocators {

/// The blocks of all buffers when a step allocates and releases them one by one.
struct Pooled {
  std::vector<Bytes> offsets;  ///< per buffer
  std::vector<Bytes> blocks;   ///< per buffer: bytes of the block that it got, rounding included
  Bytes height = 0;            ///< bytes that the pool took from the system, and keeps
};

/// A method that shares memory without knowledge of later requests: an allocator, or a planner that
/// passes over the step once. Requests come in the order of requests_of(). A pool ignores the
/// buffers' own alignments and fixed offsets. Empty buffers get no block. A new strategy needs one
/// file in this folder and one line in registry.cc.
struct PoolStrategy {
  std::string_view name;
  std::string_view summary;  ///< one line
  std::string_view source;   ///< where it is described
  /// Rounds sizes up to `unit`, a power of two, unless the pool has its own list of sizes.
  Pooled (*serve)(const std::vector<Buffer>& buffers, Bytes unit);
};

std::span<const PoolStrategy> pool_strategies();

}  // namespace lowtide::packing::allocators
