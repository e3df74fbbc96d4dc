#pragma once

#include <vector>

#include "device/work_timer.h"

namespace lowtide::profile {

/// How long one run of an op took, and whether the host gave its processors to others meanwhile.
struct TrialRun {
  device::WorkTimer::Times times;
  bool was_interrupted = false;
};

/// How often the host took a processor from a thread of this process.
long interruptions();

/// How many of the runs the host did not interrupt.
int count_uninterrupted(const std::vector<TrialRun>& runs);

/// The times of a usual run: the medians of those that were not interrupted. On a busy machine
/// there may be none, and then the least times, as others' work only adds to them. Needs a run.
device::WorkTimer::Times usual_times(const std::vector<TrialRun>& runs);

}  // namespace lowtide::profile
