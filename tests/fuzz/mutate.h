#pragma once

#include <cstdint>
#include <string>

namespace lowtide::testing {

/// The JSON text with some faults: values, members and list items changed, dropped, repeated,
/// swapped or nested; numbers at the ends of their ranges; duplicate keys; and sometimes bytes
/// changed without regard for JSON. The same seed makes the same faults on every machine.
std::string mutated(const std::string& text, std::uint64_t seed);

}  // namespace lowtide::testing
