#include "packing/allocators/recycling.h"

namespace lowtide::packing::allocators {
namespace {

Bytes rounded(Bytes bytes, Bytes unit) { return align_up(bytes, unit); }

}  // namespace

PoolStrategy exact_sizes_pool() {
  return {
      .name = "exact-sizes",
      .summary = "allocate and recycle: a free block serves only its exact size",
      .source = "Wilson et al., Dynamic Storage Allocation: A Survey, IWMM 1995",
      .serve =
          [](const std::vector<Buffer>& buffers, Bytes unit) {
            Recycling pool(rounded, unit);
            return serve(buffers, pool);
          },
  };
}

}  // namespace lowtide::packing::allocators
