#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "largest/largest_size.h"

namespace lowtide::cli {

/// The result of a search for the largest size of `model`, for people.
std::string largest_text(const std::string& model, const largest::Question& question,
                         const largest::Largest& found);
/// For programs; docs/reference/command-line.md lists the keys.
nlohmann::json largest_json(const std::string& model, const largest::Question& question,
                            const largest::Largest& found);

}  // namespace lowtide::cli
