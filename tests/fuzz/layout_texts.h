#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace lowtide::testing {

/// Tables of buffers that use every column in every notation.
const std::vector<std::string>& valid_tables();

/// For read_as_layout(): in turn a table with some faults (cells, lines and bytes changed, dropped
/// or repeated), and bytes for up to a dozen buffers. The same seed makes the same text.
std::string layout_text(std::uint64_t seed);

}  // namespace lowtide::testing
