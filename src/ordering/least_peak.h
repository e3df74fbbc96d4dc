#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/control.h"
#include "ordering/precedence.h"

namespace lowtide::ordering {

/// The effort of least_peak().
struct PeakEffort {
  double work = 1;  ///< 1: usually a second, up to 20 on thousands of ops; 0: only quick orders
  std::uint64_t seed = 1;
  /// Stop at the first order whose peak is no larger than this; without a value, search for the
  /// best.
  std::optional<Bytes> wanted = {};
};

/// An order in which every stage runs once, and a bound for all others.
struct LeastPeak {
  std::vector<int> stages;  ///< all but the end
  Bytes peak = 0;           ///< bytes in use, writes in place counted
  Bytes bound = 0;          ///< no order has a lower peak
  bool proven() const { return peak == bound; }
};

/// Looks for the order with the lowest peak among orders that compute the same; prefers the graph's
/// own among equals. Takes the best of some quick orders (list_orders.h). Reorders windows around
/// its peak (window.h), wider ones while narrow ones do not help, in the end the whole graph. Then
/// anneals the bytes above a limit just below the peak, and tries the windows again. Ends as soon
/// as the peak equals the bound (peak_bound.h). Same seed and work, same result, except for time
/// limits.
LeastPeak least_peak(const remat::StageGraph& graph, const Precedence& precedence,
                     const PeakEffort& effort, const Control& control);

}  // namespace lowtide::ordering
