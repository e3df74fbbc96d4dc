#pragma once

#include <optional>

#include "base/control.h"
#include "parallel/placement.h"

namespace lowtide::parallel {

/// Whether each rank of the placement runs the whole step of the model at once, without stages and
/// with one micro-batch, and has all of its state. Then the plan of the step's graph says more
/// exactly what a rank holds than the sum over its units: gradients grow while activations shrink.
bool runs_whole_step(const LayeredModel& model, const Placement& placement);

/// The placement's report with the plan of the whole step in place of those of its units: keep-all
/// where it fits, or else what the default strategy finds. Nothing where no plan was found. The
/// placement must run the whole step. The search for a plan ends after kWholeStepSeconds.
std::optional<PlacementReport> whole_step_report(const LayeredModel& model, const Cluster& cluster,
                                                 const PlacementReport& by_units,
                                                 const Control& control);

inline constexpr double kWholeStepSeconds = 10;

}  // namespace lowtide::parallel
