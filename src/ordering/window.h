#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "ordering/schedule.h"

namespace lowtide::ordering {

/// What is looked for, and for how long.
struct WindowGoal {
  Bytes at_least = 0;     ///< no lower peak than this is of use, or known to be possible
  Bytes below = 0;        ///< only orders with a lower peak than this
  std::int64_t work = 0;  ///< looks at stages and what they read, at most
};

/// What is known of the orders of neighbouring stages, all others staying where they are.
struct WindowAnswer {
  /// None has a lower peak, unless that is below `at_least`, nor below `below` if it is that.
  Bytes bound = 0;
  std::optional<std::vector<int>> stages = {};  ///< one whose peak is at most `bound`, if found
  std::int64_t work = 0;                        ///< that it took
};

/// Looks for the order of the stages at [first, last) whose peak is the least, by a bottleneck
/// shortest path over the sets of those that have run (Ahn et al., SERENITY, MLSys 2020): best
/// first, so that the peak of the way to the next set is a bound whenever the search stops.
///
/// What keeps the number of sets small, without losing the least peak: a stage that fits under the
/// peak of the way so far and leaves no more live than before it runs at once. For whatever else
/// runs meanwhile would run with no more live, and would leave no more, since the more has run the
/// more of a stage's inputs die with it.
WindowAnswer least_window(const Schedule& schedule, int first, int last, const WindowGoal& goal);

/// The most bytes in use at [first, last).
Bytes peak_of(const Schedule& schedule, int first, int last);

}  // namespace lowtide::ordering
