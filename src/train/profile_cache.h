#pragma once

#include <filesystem>
#include <span>

#include "base/control.h"
#include "cost/profile.h"
#include "profile/profiler.h"

namespace lowtide::train {

/// Where measurements are kept: $XDG_CACHE_HOME/lowtide, or ~/.cache/lowtide; in the folder for
/// temporary files, under a name with the number of the user, when there is no home. It is for this
/// user alone: another one's is neither read nor written.
std::filesystem::path measurements_folder();

/// The default file for the measurements of a device: profile-<hash of the device>.json in
/// measurements_folder().
std::filesystem::path default_profile_path(const std::string& device);

/// A graph with the times and workspaces of this machine.
struct Profiled {
  Graph graph;
  std::filesystem::path file;
  int measured = 0;     ///< ops that were run; the others were in the file
  bool is_kept = true;  ///< whether the file has the measurements now
};

/// Measures the ops of `graph` that `file` (empty: the default one) lacks on a device of this
/// machine, or all of them again. Writes the file, also after a stop request. Makes the folder of
/// the default one alone. Throws InputError for a file from another device and for a new one that
/// cannot be written, StoppedError when stopped before every op was measured. That the default
/// file, or one that was there, cannot be written is reported through `control` and is no error.
Profiled profile_here(const Graph& graph, const std::filesystem::path& file, const Control& control,
                      profile::Measure measure = profile::Measure::lacking,
                      const device::ComputeDevice& device = device::cpu_device());

/// The same for some ops of the graph; the others get what the file has, or an estimate.
Profiled profile_some_here(const Graph& graph, std::span<const OpId> ops,
                           const std::filesystem::path& file, const Control& control,
                           profile::Measure measure = profile::Measure::lacking,
                           const device::ComputeDevice& device = device::cpu_device());

}  // namespace lowtide::train
