#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "train/trainer.h"

namespace lowtide::cli {

/// The result of a run for programs, and as a table for people.
nlohmann::json to_json(const train::TrainResult& result);
std::string describe(const train::TrainResult& result);

/// Whether the bits are those of keep-all, where both were compared: for programs, and for people.
void add_comparison(const train::TrainResult& result, nlohmann::json& j);
std::string describe_comparison(const train::TrainResult& result);

}  // namespace lowtide::cli
