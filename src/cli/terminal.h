#pragma once

#include <cstddef>
#include <optional>

namespace lowtide::cli {

/// Of the terminal that a descriptor is (STDOUT_FILENO, STDERR_FILENO); nothing where it is none,
/// or does not say.
std::optional<std::size_t> terminal_columns(int descriptor);

/// Whether lines on this descriptor can be overwritten.
bool can_overwrite(int descriptor);

/// Whether standard output is a terminal that shows the blocks of a sparkline: in UTF-8, and not of
/// letters alone.
bool shows_blocks();

}  // namespace lowtide::cli
