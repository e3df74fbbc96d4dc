#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "ordering/schedule.h"

namespace lowtide::ordering {

/// The goal of the search, and its effort.
struct WindowGoal {
  Bytes at_least = 0;     ///< a lower peak is useless, or known to be impossible
  Bytes below = 0;        ///< only orders with a lower peak than this
  std::int64_t work = 0;  ///< visits of stages and of values they read, at most
};

/// The result for all orders of neighbouring stages, all other stages fixed.
struct WindowAnswer {
  /// No order has a lower peak, except perhaps one below `at_least`. At most `below`.
  Bytes bound = 0;
  std::optional<std::vector<int>> stages = {};  ///< an order with a peak of at most this, if found
  std::int64_t work = 0;                        ///< that was done
};

/// Looks for the order of the stages at [first, last) with the least peak. A bottleneck shortest
/// path over the sets of stages that have run (Ahn et al., SERENITY, MLSys 2020), best first: so
/// the peak on the path to the next set is a bound whenever the search stops.
///
/// One rule keeps the number of sets small and does not lose the least peak. A stage runs at once
/// if it fits under the peak so far and leaves no more bytes live than before it. Any other stage
/// that runs later then has no more live bytes: the more stages have run, the more inputs of a
/// stage die with it.
WindowAnswer least_window(const Schedule& schedule, int first, int last, const WindowGoal& goal);

/// The most bytes in use at [first, last).
Bytes peak_of(const Schedule& schedule, int first, int last);

}  // namespace lowtide::ordering
