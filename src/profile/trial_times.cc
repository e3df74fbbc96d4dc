#include "profile/trial_times.h"

#include <sys/resource.h>

#include <algorithm>

namespace lowtide::profile {
namespace {

using Times = device::WorkTimer::Times;

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

}  // namespace

long interruptions() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  return used.ru_nivcsw;
}

int count_uninterrupted(const std::vector<TrialRun>& runs) {
  return static_cast<int>(std::ranges::count(runs, false, &TrialRun::was_interrupted));
}

Times usual_times(const std::vector<TrialRun>& runs) {
  const bool all_interrupted = count_uninterrupted(runs) == 0;
  std::vector<double> work, launches;
  for (const TrialRun& run : runs) {
    if (run.was_interrupted && !all_interrupted) continue;
    work.push_back(run.times.work_seconds);
    launches.push_back(run.times.launch_seconds);
  }
  if (all_interrupted) return {std::ranges::min(work), std::ranges::min(launches)};
  return {median(std::move(work)), median(std::move(launches))};
}

}  // namespace lowtide::profile
