#pragma once

#include <string>
#include <vector>

#include "graph/residents.h"
#include "plan/lanes.h"
#include "plan/plan.h"
#include "report/absence.h"
#include "report/fold.h"

namespace lowtide::report {

/// The reasons for a plan's memory and cost.
struct Explanation {
  /// A storage that is in memory at the peak.
  struct Held {
    TensorId tensor;
    Bytes bytes;
  };
  /// An op that runs more than once.
  struct Again {
    OpId op;
    int runs;     ///< the first included
    double cost;  ///< of all but the first
    /// Why: an output of the op is absent for a while, and memory has too little space for it.
    std::optional<Absence> absence;
  };

  /// A value that moves to slower memory.
  struct Moved {
    TensorId storage;
    PlaceIndex place;
    int times_back;
    double copies;  ///< the time of its copies
    double waited;  ///< of that, ops waited so long
  };

  Bytes peak_bytes = 0;
  OpId peak_op = kNone;                  ///< that runs at the peak; kNone when no op does
  Bytes resident_bytes = 0;              ///< held throughout
  std::vector<ResidentBytes> residents;  ///< the same by kind, largest first
  Bytes workspace_bytes = 0;             ///< of the op at the peak
  std::vector<Held> held;                ///< values at the peak, largest first
  std::vector<Again> again;              ///< most expensive first
  std::vector<Moved> moved;              ///< largest first
  bool has_two_places = false;           ///< of slower memory: the host's, and a disk
  double cost = 0;
  double keep_all_cost = 0;
  Bytes keep_all_peak_bytes = 0;

  double overhead() const;  ///< cost / keep-all cost - 1; 0 when keep-all costs nothing
};

/// Replays a valid plan; throws InputError when it breaks a rule.
Explanation explain(const Graph& graph, const Plan& plan);

/// For people, with at most `most` lines each for held values, ops that run again, and values that
/// move.
std::string format_explanation(const Graph& graph, const Explanation& explanation, int most = 10,
                               std::size_t columns = kAnyWidth);

}  // namespace lowtide::report
