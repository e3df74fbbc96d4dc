#pragma once

#include <limits>

namespace lowtide::bounds {

/// The cost of what no plan can do.
inline constexpr double kNever = std::numeric_limits<double>::infinity();
/// Sums of costs in floating point are right up to this share; a bound gives it away.
inline constexpr double kRounding = 1e-9;

}  // namespace lowtide::bounds
