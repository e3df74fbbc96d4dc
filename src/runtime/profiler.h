#pragma once

#include <string>

#include "base/control.h"
#include "cost/profile.h"

namespace lowtide {

/// "AMD EPYC, 2 threads, LibTorch 2.13.0": what a profile is valid for.
std::string device_name();

/// Runs each distinct op of `graph` that `profile` lacks, on random data through the real kernels,
/// and adds its time, workspace and allocation sequence. Only one op's tensors exist at a time.
/// Stops early, keeping what it has, when `control` says so. Returns how many ops were measured.
int profile_ops(const Graph& graph, Profile& profile, const Control& control);

}  // namespace lowtide
