#pragma once

#include "base/control.h"

namespace lowtide {

/// Seconds for a part of the work under `whole`: a share of what is left until that part of its
/// limit which `until` says has gone. 0 when there is no limit, as Control takes it; else never 0.
double share_of_seconds(const Control& whole, double share, double until = 1);

/// A control for that part, which reports to the same listener. `whole` must outlive it.
Control share_of_time(const Control& whole, double share);

}  // namespace lowtide
