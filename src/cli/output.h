#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "base/bytes.h"

namespace lowtide::cli {

/// "12.3%"; "-" for nothing.
std::string percent(std::optional<double> share);
/// "1.25 s", "310 ms"
std::string duration(double seconds);
std::string bytes_or_dash(std::optional<Bytes> bytes);

/// Write to standard output; Error when that fails (a full disk, a closed pipe).
void print(std::string_view text);
void print_json(const nlohmann::json& document);

}  // namespace lowtide::cli
