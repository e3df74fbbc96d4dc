#pragma once

#include <nlohmann/json.hpp>
#include <optional>

namespace lowtide::cli {

/// The JSON of a value; null if there is none.
template <typename T>
nlohmann::json or_null(const std::optional<T>& value) {
  return value ? nlohmann::json(*value) : nlohmann::json(nullptr);
}

}  // namespace lowtide::cli
