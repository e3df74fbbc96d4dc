#pragma once

#include <cstddef>
#include <limits>
#include <string>
#include <string_view>

namespace lowtide::report {

inline constexpr std::size_t kAnyWidth = std::numeric_limits<std::size_t>::max();

/// How many characters a text of UTF-8 has, each a column wide.
std::size_t width(std::string_view text);

/// At most the first `columns` characters.
std::string cut(std::string_view text, std::size_t columns);

/// The lines of `text` broken at blanks so that none is wider than `columns`; a word that is wider
/// is broken too. What a broken line goes on with is indented as its beginning, and by `more`.
/// Lines that fit stay as they are. Fewer than 8 columns count as 8.
std::string fold(std::string_view text, std::size_t columns, std::size_t more = 0);

}  // namespace lowtide::report
