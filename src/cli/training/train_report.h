#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "train/trainer.h"

namespace lowtide::cli {

/// The result of a run for programs, and as a table for people.
nlohmann::json to_json(const train::TrainResult& result);
std::string describe(const train::TrainResult& result);

}  // namespace lowtide::cli
