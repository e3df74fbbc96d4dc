#pragma once

#include <filesystem>

#include "base/control.h"
#include "cost/profile.h"
#include "profile/profiler.h"

namespace lowtide::train {

/// Where the measurements of a device are kept unless the user says otherwise:
/// $XDG_CACHE_HOME/lowtide/profile-<hash of the device>.json, or under ~/.cache; under the folder
/// for temporary files when there is no home.
std::filesystem::path default_profile_path(const std::string& device);

/// A graph with the times and workspaces of this machine.
struct Profiled {
  Graph graph;
  std::filesystem::path file;
  int measured = 0;     ///< ops that had to be run; the others were in the file
  bool is_kept = true;  ///< whether the file has them now
};

/// Measures what `file` (empty: the default one) lacks of `graph` on this machine, or all of it
/// once more, and writes it back, also when the user asks to stop meanwhile. Throws InputError for
/// a file that was made on another device, StoppedError when stopped before every op was measured.
/// A file that cannot be written is reported through `control` and does no harm.
Profiled profile_here(const Graph& graph, const std::filesystem::path& file, const Control& control,
                      profile::Measure measure = profile::Measure::lacking);

}  // namespace lowtide::train
