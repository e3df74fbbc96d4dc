#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/control.h"
#include "ordering/precedence.h"

namespace lowtide::ordering {

/// How long least_peak() looks.
struct PeakEffort {
  double work = 1;  ///< 1: mostly a second, up to 20 on thousands of ops; 0: only quick orders
  std::uint64_t seed = 1;
  /// An order with no larger a peak is good enough, and only such a one is looked for; else the
  /// best.
  std::optional<Bytes> wanted = {};
};

/// An order in which every stage runs once, and what is known of the others.
struct LeastPeak {
  std::vector<int> stages;  ///< all but the end
  Bytes peak = 0;           ///< bytes in use, writes in place counted
  Bytes bound = 0;          ///< no order has a lower peak
  bool proven() const { return peak == bound; }
};

/// Looks for the order with the lowest peak among those that compute the same: the graph's own
/// where no other has a lower one. The best of some quick orders (list_orders.h) is taken; windows
/// around its peak are ordered anew (window.h), wider ones as long as narrow ones do not help, in
/// the end the whole graph; then annealing of what is above a limit just below the peak, and the
/// windows again. Ends as soon as the peak is the bound (peak_bound.h). Same seed and work, same
/// result, but for time limits.
LeastPeak least_peak(const remat::StageGraph& graph, const Precedence& precedence,
                     const PeakEffort& effort, const Control& control);

}  // namespace lowtide::ordering
