#include "packing/allocators/fitting.h"

namespace lowtide::packing::allocators {

PoolStrategy next_fit_pool() {
  return {
      .name = "next-fit",
      .summary = "the first such hole behind the last block given; splits and merges",
      .source = "Knuth, The Art of Computer Programming, volume 1, section 2.5, exercise 6",
      .serve =
          [](const std::vector<Buffer>& buffers, Bytes unit) {
            Fitting arena(Fit::next, unit);
            return serve(buffers, arena);
          },
  };
}

}  // namespace lowtide::packing::allocators
