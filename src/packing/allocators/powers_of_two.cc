#include <algorithm>
#include <bit>
#include <cstdint>

#include "packing/allocators/recycling.h"

namespace lowtide::packing::allocators {
namespace {

Bytes rounded(Bytes bytes, Bytes unit) {
  const auto power = std::bit_ceil(static_cast<std::uint64_t>(bytes));
  return std::max(static_cast<Bytes>(power), unit);
}

}  // namespace

PoolStrategy powers_of_two_pool() {
  return {
      .name = "powers-of-two",
      .summary = "allocate and recycle in sizes that are powers of two",
      .source = "Kingsley's malloc of 4.2BSD, in Wilson et al., IWMM 1995",
      .serve =
          [](const std::vector<Buffer>& buffers, Bytes unit) {
            Recycling pool(rounded, unit);
            return serve(buffers, pool);
          },
  };
}

}  // namespace lowtide::packing::allocators
