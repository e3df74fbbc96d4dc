#pragma once

#include <cstdint>

namespace lowtide {

/// How a resident tensor gets its first value.
struct Initializer {
  enum class Kind : std::uint8_t {
    zeros,
    constant,  ///< a
    uniform,   ///< over [a, b)
    normal,    ///< mean a, standard deviation b
    arange,    ///< 0, 1, 2, ...
    causal     ///< boolean lower triangle of the last two dimensions, the diagonal included
  };
  Kind kind = Kind::zeros;
  double a = 0;
  double b = 0;
  bool operator==(const Initializer&) const = default;
};

}  // namespace lowtide
