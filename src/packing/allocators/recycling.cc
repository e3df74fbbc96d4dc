// Allocators that keep free blocks by size, which differ in the sizes that they give.

#include <algorithm>
#include <bit>
#include <cstdint>
#include <map>
#include <vector>

#include "packing/allocators/requests.h"

namespace lowtide::packing::allocators {
namespace {

/// Rounds the bytes of a request, more than none, to a size that the allocator gives.
using Rounding = Bytes (*)(Bytes bytes, Bytes unit);

/// A free block serves only its own size; the block released last is used first. Blocks are never
/// split or merged.
class Recycling final : public Allocator {
 public:
  Recycling(Rounding rounded, Bytes unit) : rounded_(rounded), unit_(unit) {}

  Block take(Bytes bytes) override {
    bytes = rounded_(bytes, unit_);
    std::vector<Bytes>& free = free_[bytes];
    if (free.empty()) {
      const Block block{top_, bytes};
      top_ += bytes;
      return block;
    }
    const Block block{free.back(), bytes};
    free.pop_back();
    return block;
  }
  void give(Block block) override { free_[block.bytes].push_back(block.offset); }
  Bytes height() const override { return top_; }

 private:
  Rounding rounded_;
  Bytes unit_;
  std::map<Bytes, std::vector<Bytes>> free_;  // offsets by size
  Bytes top_ = 0;
};

Bytes exact(Bytes bytes, Bytes unit) { return align_up(bytes, unit); }

Bytes power_of_two(Bytes bytes, Bytes unit) {
  const auto power = std::bit_ceil(static_cast<std::uint64_t>(bytes));
  return std::max(static_cast<Bytes>(power), unit);
}

/// Multiples of the quantum up to eight quanta, then four sizes per doubling.
Bytes size_class(Bytes bytes, Bytes unit) {
  constexpr Bytes kQuantum = 16;
  const auto below = std::bit_floor(static_cast<std::uint64_t>(bytes - 1) | 1);
  const Bytes step = std::max(static_cast<Bytes>(below) / 4, kQuantum);
  return align_up(align_up(bytes, step), unit);
}

template <Rounding rounded>
Pooled serve_in(const std::vector<Buffer>& buffers, Bytes unit) {
  Recycling pool(rounded, unit);
  return serve(buffers, pool);
}

}  // namespace

PoolStrategy exact_sizes_pool() {
  return {.name = "exact-sizes",
          .summary = "allocate and recycle: a free block serves only its exact size",
          .source = "Wilson et al., Dynamic Storage Allocation: A Survey, IWMM 1995",
          .serve = serve_in<exact>};
}

PoolStrategy powers_of_two_pool() {
  return {.name = "powers-of-two",
          .summary = "allocate and recycle in sizes that are powers of two",
          .source = "Kingsley's malloc of 4.2BSD, in Wilson et al., IWMM 1995",
          .serve = serve_in<power_of_two>};
}

PoolStrategy size_classes_pool() {
  return {
      .name = "size-classes",
      .summary = "allocate and recycle in jemalloc's sizes, four to each doubling",
      .source = "Evans, A Scalable Concurrent malloc(3) Implementation for FreeBSD, BSDCan 2006",
      .serve = serve_in<size_class>};
}

}  // namespace lowtide::packing::allocators
