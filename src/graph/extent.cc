#include "graph/extent.h"

#include <algorithm>
#include <functional>
#include <numeric>

namespace lowtide {

Bytes element_bytes(const Tensor& tensor) {
  if (std::ranges::count(tensor.shape, 0) > 0) return 0;  // the other sizes may be anything
  return std::accumulate(tensor.shape.begin(), tensor.shape.end(),
                         Bytes{element_bytes(*tensor.dtype)}, std::multiplies<>());
}

Bytes extent_bytes(const Tensor& tensor) {
  const Bytes elements = element_bytes(tensor);
  if (tensor.strides.empty() || elements == 0) return elements;
  std::int64_t last = 0;
  for (std::size_t d = 0; d < tensor.strides.size(); ++d) {
    last += (tensor.shape[d] - 1) * tensor.strides[d];
  }
  return (last + 1) * element_bytes(tensor.dtype.value());
}

}  // namespace lowtide
