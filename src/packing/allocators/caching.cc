#include "packing/allocators/segments.h"

namespace lowtide::packing::allocators {
namespace {

constexpr Bytes kMiB = Bytes{1} << 20;
constexpr Bytes kUnit = 512;

/// The rules of PyTorch's CUDA allocator with its default settings: small requests share segments
/// of 2 MiB, requests below 10 MiB share segments of 20 MiB, larger requests get their own segment
/// in whole 2 MiB. Large blocks keep a rest of up to 1 MiB.
class Caching final : public Allocator {
 public:
  Block take(Bytes bytes) override {
    bytes = align_up(bytes, kUnit);
    const bool small = bytes <= kMiB;
    return segments_.take({.bytes = bytes,
                           .purpose = small ? 0 : 1,
                           .new_segment = segment_for(bytes),
                           .least_rest = small ? kUnit : kMiB + 1});
  }
  void give(Block block) override { segments_.give(block); }
  Bytes height() const override { return segments_.height(); }

 private:
  static Bytes segment_for(Bytes bytes) {
    if (bytes <= kMiB) return 2 * kMiB;
    return bytes < 10 * kMiB ? 20 * kMiB : align_up(bytes, 2 * kMiB);
  }

  Segments segments_;
};

}  // namespace

PoolStrategy caching_pool() {
  return {
      .name = "caching",
      .summary = "PyTorch's rules for CUDA: best fit in segments that never merge",
      .source = "Paszke et al., PyTorch, NeurIPS 2019; c10/cuda/CUDACachingAllocator.cpp",
      .serve =
          [](const std::vector<Buffer>& buffers, Bytes) {
            Caching allocator;
            return serve(buffers, allocator);
          },
  };
}

}  // namespace lowtide::packing::allocators
