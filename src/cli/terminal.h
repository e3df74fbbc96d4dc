#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

namespace lowtide::cli {

/// Of the terminal that a descriptor is (STDOUT_FILENO, STDERR_FILENO); nothing where it is none,
/// or does not say.
std::optional<std::size_t> terminal_columns(int descriptor);

/// Whether lines on this descriptor can be overwritten.
bool can_overwrite(int descriptor);

/// Shows a line on standard error in place of the last such line.
void show_line(std::string_view text);
/// Removes that line, if there is one: nothing else that is printed may follow it.
void clear_line();

/// Whether standard output is a terminal that shows the blocks of a sparkline: in UTF-8, and not of
/// letters alone.
bool shows_blocks();

}  // namespace lowtide::cli
