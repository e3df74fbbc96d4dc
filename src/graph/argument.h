#pragma once

#include <complex>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "graph/dtype.h"

namespace lowtide {

/// The tensor at a position of the op's `inputs`.
struct TensorArg {
  int position;
  bool operator==(const TensorArg&) const = default;
};

/// A list of tensors, each by its position in the op's `inputs`; -1 where the list has a hole.
struct TensorListArg {
  std::vector<int> positions;
  bool operator==(const TensorListArg&) const = default;
};

/// None: an absent optional argument, and every generator, layout, device or pin_memory.
using NoneArg = std::monostate;

/// One argument of an op in the order of its ATen schema. Lists of booleans are lists of 0 and 1; a
/// memory format is its number (0: contiguous, 1: preserve, 2: channels last).
using Argument = std::variant<NoneArg, TensorArg, TensorListArg, bool, std::int64_t, double,
                              std::complex<double>, std::vector<std::int64_t>, std::vector<double>,
                              DType, std::string>;

}  // namespace lowtide
