#pragma once

#include <vector>

#include "base/control.h"
#include "parallel/placement.h"
#include "parallel/placement_space.h"

namespace lowtide::parallel {

/// Widths of which no placement fits.
struct Misfit {
  Placement placement = {};         ///< that needs the least memory of those compared
  Bytes smallest_memory_bytes = 0;  ///< of each rank, with which that placement fits
};

/// The answer of a search.
struct FoundPlacements {
  /// The fastest of its data, tensor and pipeline widths each, fastest first.
  std::vector<PlacementReport> best;
  /// Those that could have been faster than the last of `best`, most promising first.
  std::vector<Misfit> misfits;
  std::size_t considered = 0;  ///< placements
  std::size_t solved = 0;      ///< of which stages were divided; no other can be among the best
  bool complete = true;        ///< false: the user stopped it
  /// No placement of those considered takes less: all ranks compute all the time, nothing is
  /// computed again, and data-parallel ranks and stages never wait.
  double least_seconds = 0;
  double arithmetic_seconds = 0;  ///< the model's operations, at the rate that devices reach
  /// The state of the model, divided among all ranks.
  Bytes least_state_bytes = 0;
};

struct SearchLimits {
  PlacementLimits space;
  std::size_t widths = 5;  ///< in FoundPlacements::best
  std::size_t misfits = 3;
};

/// The fastest placements whose every rank fits its memory. Exact over all_placements(), up to what
/// StagePlans leaves out: a placement is passed over only where a lower bound on its time says that
/// it cannot be among the best. Placements that run a whole step at once are planned as that
/// (parallel/whole_step.h). Throws InputError as all_placements() does; InfeasibleError, with
/// the smallest memory that would do, where none fits; StoppedError when the user asks to stop
/// before one was found.
FoundPlacements find_placements(const LayeredModel& model, const Cluster& cluster,
                                const SearchLimits& limits, const Control& control);

}  // namespace lowtide::parallel
