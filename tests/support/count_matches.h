#pragma once

#include <iterator>
#include <regex>
#include <string>

namespace lowtide::testing {

/// How often a regular expression occurs in a text.
inline std::size_t count_matches(const std::string& text, const std::string& pattern) {
  const std::regex regex(pattern);
  return static_cast<std::size_t>(
      std::distance(std::sregex_iterator(text.begin(), text.end(), regex), std::sregex_iterator()));
}

}  // namespace lowtide::testing
