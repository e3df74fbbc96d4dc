#pragma once

#include <cstdint>
#include <string>

#include "base/control.h"
#include "cost/profile.h"

namespace lowtide::profile {

/// "AMD EPYC (AVX2), 2 threads, LibTorch 2.13.0": what a profile is valid for.
std::string device_name();

/// Which ops profile_ops() runs.
enum class Measure : std::uint8_t {
  lacking,  ///< those that the profile lacks
  again     ///< all; of two times the smaller is kept, since a busy machine only makes them longer
};

/// Runs each distinct op of `graph` that `measure` names, on made-up data through the real kernels,
/// and adds its time, workspace and allocation sequence. Only one op's tensors exist at a time; the
/// global generator is left as it was. View ops are entered as free: the executor makes views once,
/// before the steps. Stops between two ops, keeping what it has, when `control` says so. Returns
/// how many ops were measured. Throws InputError when the profile is another device's or the graph
/// has no arguments, Error that names the op when one fails.
int profile_ops(const Graph& graph, cost::Profile& profile, const Control& control,
                Measure measure = Measure::lacking);

}  // namespace lowtide::profile
