#pragma once

#include "base/control.h"

namespace lowtide {

/// Seconds for a part of the work under `whole`: `share` of the time until the fraction `until` of
/// its limit is used up. 0, which means no limit, only when `whole` has none.
double share_of_seconds(const Control& whole, double share, double until = 1);

/// A control for so many seconds of the work under `whole`, which reports to the same listener.
/// `whole` must outlive it.
Control part_of_time(const Control& whole, double seconds);

/// The same for `share` of the time that is left.
Control share_of_time(const Control& whole, double share);

}  // namespace lowtide
