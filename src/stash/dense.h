#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/Exception.h>

namespace lowtide::stash {

/// Elements that a thread treats at least, and a multiple of which each thread begins at.
inline constexpr std::int64_t kGrain = std::int64_t{1} << 15;

/// The elements of a dense tensor in the order of their addresses, as a view of one dimension.
inline at::Tensor in_memory_order(const at::Tensor& tensor) {
  TORCH_CHECK(tensor.is_non_overlapping_and_dense(),
              "only a tensor whose elements fill one stretch of memory can be stashed, not one of "
              "size ",
              tensor.sizes(), " and stride ", tensor.strides());
  return tensor.as_strided({tensor.numel()}, {1});
}

/// Whether the loops for the host's memory apply.
inline bool on_host(const at::Tensor& tensor) { return tensor.device().is_cpu(); }

}  // namespace lowtide::stash
