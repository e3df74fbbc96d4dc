#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "slower/place.h"

namespace lowtide::train {

/// Of slower memory, by the medium (slower::Place::medium()).
using KnownSpeeds = std::map<std::string, slower::LaneSpeed>;

/// How fast the slower memory was that was measured on this machine so far, as kept beside the
/// profiles (profile_cache.h). A file that cannot be read, or has other things in it, is empty.
KnownSpeeds known_speeds();

/// As measured before, if it was.
std::optional<slower::LaneSpeed> known_speed(const slower::Place& place);

/// Measures the place now, and keeps the speed for later. Throws as slower::Place::measured(); that
/// it cannot be kept is no error.
slower::LaneSpeed measure_and_keep(const slower::Place& place);

}  // namespace lowtide::train
