#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/control.h"
#include "cost/profile.h"
#include "device/device.h"

namespace lowtide::profile {

/// The ops that profile_ops() runs.
enum class Measure : std::uint8_t {
  lacking,  ///< ops that the profile lacks
  again     ///< all ops; keeps the smaller time, since a busy machine only makes it longer
};

/// Runs each distinct op of `graph` that `measure` selects on the device, on synthetic data with
/// the real kernels, and adds its time, launch, workspace and allocation sequence to `profile`.
/// Only one op's tensors exist at a time; the global generator is restored. View ops get cost 0:
/// the executor makes views once, before the steps. When `control` stops it, it stops between two
/// ops and keeps the results. Ops that decide the time of the step (heavy_ops) are measured again
/// until two times agree, and the smaller one is kept. Returns the number of measured ops. Throws
/// InputError when the profile is of another device or the graph has no arguments, Error that names
/// the op when an op fails.
int profile_ops(const Graph& graph, cost::Profile& profile, const Control& control,
                Measure measure = Measure::lacking,
                const device::ComputeDevice& device = device::cpu_device());

/// In their order.
std::vector<OpId> all_ops(const Graph& graph);

/// As profile_ops(), of some ops of a graph.
int profile_some(const Graph& graph, std::span<const OpId> ops, cost::Profile& profile,
                 const Control& control, Measure measure = Measure::lacking,
                 const device::ComputeDevice& device = device::cpu_device());

}  // namespace lowtide::profile
