// Allocators with one arena that grows, which differ in the hole that serves a request.

#include "packing/allocators/requests.h"
#include "packing/holes.h"

namespace lowtide::packing::allocators {
namespace {

/// Holes are split, and merged with their neighbours.
class GrowingArena final : public Allocator {
 public:
  GrowingArena(Fit fit, Bytes unit) : fit_(fit), unit_(unit) {}

  Block take(Bytes bytes) override {
    bytes = align_up(bytes, unit_);
    return {holes_.take(bytes, fit_), bytes};
  }
  void give(Block block) override { holes_.give(block.offset, block.bytes); }
  Bytes height() const override { return holes_.top(); }

 private:
  Holes holes_;
  Fit fit_;
  Bytes unit_;
};

template <Fit fit>
Pooled serve_by(const std::vector<Buffer>& buffers, Bytes unit) {
  GrowingArena arena(fit, unit);
  return serve(buffers, arena);
}

}  // namespace

PoolStrategy best_fit_pool() {
  return {.name = "best-fit",
          .summary = "the smallest hole that is large enough; splits and merges",
          .source = "Knuth, The Art of Computer Programming, volume 1, section 2.5",
          .serve = serve_by<Fit::best>};
}

PoolStrategy first_fit_pool() {
  return {.name = "first-fit",
          .summary = "the lowest hole that is large enough; splits and merges",
          .source = "Knuth, The Art of Computer Programming, volume 1, section 2.5",
          .serve = serve_by<Fit::first>};
}

PoolStrategy next_fit_pool() {
  return {.name = "next-fit",
          .summary = "the first such hole behind the last block given; splits and merges",
          .source = "Knuth, The Art of Computer Programming, volume 1, section 2.5, exercise 6",
          .serve = serve_by<Fit::next>};
}

}  // namespace lowtide::packing::allocators
