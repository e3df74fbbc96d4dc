#include <algorithm>
#include <bit>
#include <cstdint>

#include "packing/allocators/recycling.h"

namespace lowtide::packing::allocators {
namespace {

constexpr Bytes kQuantum = 16;

/// Multiples of the quantum up to eight quanta, then four sizes per doubling.
Bytes rounded(Bytes bytes, Bytes unit) {
  const auto below = std::bit_floor(static_cast<std::uint64_t>(bytes - 1) | 1);
  const Bytes step = std::max(static_cast<Bytes>(below) / 4, kQuantum);
  return align_up(align_up(bytes, step), unit);
}

}  // namespace

PoolStrategy size_classes_pool() {
  return {
      .name = "size-classes",
      .summary = "allocate and recycle in jemalloc's sizes, four to each doubling",
      .source = "Evans, A Scalable Concurrent malloc(3) Implementation for FreeBSD, BSDCan 2006",
      .serve =
          [](const std::vector<Buffer>& buffers, Bytes unit) {
            Recycling pool(rounded, unit);
            return serve(buffers, pool);
          },
  };
}

}  // namespace lowtide::packing::allocators
