#include "packing/allocators/fitting.h"

namespace lowtide::packing::allocators {

PoolStrategy first_fit_pool() {
  return {
      .name = "first-fit",
      .summary = "the lowest hole that is large enough; splits and merges",
      .source = "Knuth, The Art of Computer Programming, volume 1, section 2.5",
      .serve =
          [](const std::vector<Buffer>& buffers, Bytes unit) {
            Fitting arena(Fit::first, unit);
            return serve(buffers, arena);
          },
  };
}

}  // namespace lowtide::packing::allocators
