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

/// The width of standard output; report::kAnyWidth where it is no terminal.
std::size_t output_columns();

/// Write to standard output; Error when that fails (a full disk, a closed pipe). Lines of a text
/// that are wider than the terminal are broken at blanks.
void print(std::string_view text);
/// The same for what programs read: no line is broken.
void print_verbatim(std::string_view text);
void print_json(const nlohmann::json& document);

}  // namespace lowtide::cli
