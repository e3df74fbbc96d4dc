#include "train/profile_cache.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <system_error>

#include "base/error.h"
#include "base/file.h"
#include "train/hash.h"

namespace lowtide::train {
namespace fs = std::filesystem;
namespace {

/// The default file belongs to lowtide, so an unreadable one is measured again and replaced.
cost::Profile read_or_begin_again(const fs::path& file, bool is_ours, const Control& control) {
  try {
    if (is_ours) require_private_folder(file.parent_path());
    return cost::read_profile(file);
  } catch (const InputError& error) {
    if (!is_ours) throw;
    control.report(fmt::format("note: measuring again, because {}", error.what()));
    return {};
  }
}

cost::Profile read_own_profile(const fs::path& file, const std::string& device, bool is_ours,
                               const Control& control) {
  cost::Profile profile = read_or_begin_again(file, is_ours, control);
  if (profile.device.empty()) profile.device = device;
  if (profile.device != device) {
    throw InputError(
        fmt::format("the profile {} was measured on another device ({}; this is {}). Give "
                    "--profile another file, or leave it out to use this device's own.",
                    file.string(), profile.device, device));
  }
  return profile;
}

/// Returns whether that was possible.
bool keep(const cost::Profile& profile, const fs::path& file, bool is_ours,
          const Control& control) {
  try {
    if (is_ours) make_private_folder(file.parent_path());
    is_ours ? write_private_file(file, cost::format_profile(profile))
            : cost::write_profile(profile, file);
    return true;
  } catch (const std::exception&) {
    control.report(fmt::format("note: the measurements could not be kept in {}; the next run will "
                               "measure again.",
                               file.string()));
    return false;
  }
}

}  // namespace

fs::path measurements_folder() {
  if (const char* cache = std::getenv("XDG_CACHE_HOME"); cache && *cache) {
    return fs::path(cache) / "lowtide";
  }
  if (const char* home = std::getenv("HOME"); home && *home) {
    return fs::path(home) / ".cache" / "lowtide";
  }
  return fs::temp_directory_path() / fmt::format("lowtide-{}", ::geteuid());
}

fs::path default_profile_path(const std::string& device) {
  return measurements_folder() / fmt::format("profile-{:016x}.json", hash_bytes(device));
}

Profiled profile_some_here(const Graph& graph, std::span<const OpId> ops, const fs::path& given,
                           const Control& control, profile::Measure measure,
                           const device::ComputeDevice& device) {
  const bool is_ours = given.empty();
  const fs::path file = is_ours ? default_profile_path(device.name()) : given;
  std::error_code error;
  if (!is_ours && fs::status(file, error).type() == fs::file_type::not_found) {
    require_can_write(file);
  }
  cost::Profile profile = read_own_profile(file, device.name(), is_ours, control);
  const int measured = profile::profile_some(graph, ops, profile, control, measure, device);
  const bool is_kept = measured == 0 || keep(profile, file, is_ours, control);
  if (Control::stop_requested()) {
    if (!is_kept) throw StoppedError("stopped while profiling.");
    throw StoppedError(
        fmt::format("stopped while profiling; what was measured is kept in {}.", file.string()));
  }
  return {cost::priced(graph, profile), file, measured, is_kept};
}

Profiled profile_here(const Graph& graph, const fs::path& file, const Control& control,
                      profile::Measure measure, const device::ComputeDevice& device) {
  return profile_some_here(graph, profile::all_ops(graph), file, control, measure, device);
}

}  // namespace lowtide::train
