#pragma once

#include "graph/graph.h"

namespace lowtide {

/// Bytes of the elements of a tensor.
Bytes element_bytes(const Tensor& tensor);

/// Bytes from the first element to the end of the last, gaps included.
Bytes extent_bytes(const Tensor& tensor);

}  // namespace lowtide
