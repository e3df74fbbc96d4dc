#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "train/tuning.h"

namespace lowtide::cli {

/// The ranking, and the options of `lowtide train` that are those of the first, for people.
std::string tuning_text(const train::Tuning& found, Bytes budget);
/// For programs; docs/reference/command-line.md lists the keys.
nlohmann::json tuning_json(const train::Tuning& found, Bytes budget);

}  // namespace lowtide::cli
