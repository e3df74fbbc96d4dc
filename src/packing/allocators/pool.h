#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "packing/packing.h"

namespace lowtide::packing::allocators {

/// What became of every buffer where memory was asked for and given back as a step goes on.
struct Pooled {
  std::vector<Bytes> offsets;  ///< per buffer
  std::vector<Bytes> blocks;   ///< per buffer: bytes of the block that it got, rounding included
  Bytes height = 0;            ///< what the pool took from the system: it keeps what it has
};

/// One way to share memory without knowing what comes: an allocator, or a planner that goes through
/// the step once. Buffers come and go in the order of requests_of(); alignments and fixed offsets
/// of their own are no concern of a pool. Those that take no room get no block. A new one is one
/// file under src/pool/ and one line in registry.cc.
struct PoolStrategy {
  std::string_view name;
  std::string_view summary;  ///< one line
  std::string_view source;   ///< where it is described
  /// Sizes are rounded up to `unit`, a power of two, where the pool has no sizes of its own.
  Pooled (*serve)(const std::vector<Buffer>& buffers, Bytes unit);
};

std::span<const PoolStrategy> pool_strategies();

}  // namespace lowtide::packing::allocators
