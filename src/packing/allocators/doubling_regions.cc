#include <algorithm>

#include "packing/allocators/segments.h"

namespace lowtide::packing::allocators {
namespace {

constexpr Bytes kRegionMiB = Bytes{1} << 20;
constexpr Bytes kRegionUnit = 256;
constexpr Bytes kFirstRegion = 2 * kRegionMiB;
constexpr Bytes kMostWaste = 128 * kRegionMiB;

/// The rules of TensorFlow's "best fit with coalescing" with growing memory: each region is twice
/// as large as the one before, or larger if a request needs it. A block is split if it has twice
/// the requested size, or if the rest is large.
class DoublingRegions final : public Allocator {
 public:
  Block take(Bytes bytes) override {
    bytes = align_up(bytes, kRegionUnit);
    Bytes region = next_region_;
    while (region < bytes) region *= 2;
    const Bytes before = height();
    const Block block = segments_.take(
        {.bytes = bytes, .new_segment = region, .least_rest = std::min(bytes, kMostWaste)});
    if (height() > before) next_region_ = 2 * region;
    return block;
  }
  void give(Block block) override { segments_.give(block); }
  Bytes height() const override { return segments_.height(); }

 private:
  Segments segments_;
  Bytes next_region_ = kFirstRegion;
};

}  // namespace

PoolStrategy doubling_regions_pool() {
  return {
      .name = "doubling-regions",
      .summary = "TensorFlow's rules with growth: best fit in regions that double",
      .source = "Abadi et al., TensorFlow, OSDI 2016; tsl/framework/bfc_allocator.cc",
      .serve =
          [](const std::vector<Buffer>& buffers, Bytes) {
            DoublingRegions allocator;
            return serve(buffers, allocator);
          },
  };
}

}  // namespace lowtide::packing::allocators
