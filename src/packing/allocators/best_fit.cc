#include "packing/allocators/fitting.h"

namespace lowtide::packing::allocators {

PoolStrategy best_fit_pool() {
  return {
      .name = "best-fit",
      .summary = "the smallest hole that is large enough; splits and merges",
      .source = "Knuth, The Art of Computer Programming, volume 1, section 2.5",
      .serve =
          [](const std::vector<Buffer>& buffers, Bytes unit) {
            Fitting arena(Fit::best, unit);
            return serve(buffers, arena);
          },
  };
}

}  // namespace lowtide::packing::allocators
