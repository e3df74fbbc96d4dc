#include "report/fold.h"

#include <algorithm>

namespace lowtide::report {
namespace {

constexpr std::size_t kFewestColumns = 8;

/// Bytes that continue a character of UTF-8.
bool continues(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) == 0x80; }

/// How much of a line that is too wide goes on the first row: up to a blank, if one is there.
std::size_t row_bytes(std::string_view line, std::size_t columns, std::size_t indent) {
  const std::size_t most = cut(line, columns).size();
  const std::size_t blank = line.rfind(' ', most);
  return blank == std::string_view::npos || blank <= indent ? most : blank;
}

/// The rows of one line, each with its newline but the last.
std::string folded_line(std::string_view line, std::size_t columns, std::size_t more) {
  if (width(line) <= columns) return std::string(line);
  const std::size_t own = std::min(line.find_first_not_of(' '), line.size());
  const std::size_t indent = std::min(own + more, columns / 2);
  std::string rows;
  std::string rest(line);
  std::size_t begin = own;
  while (width(rest) > columns) {
    const std::size_t bytes = row_bytes(rest, columns, begin);
    rows += rest.substr(0, bytes) + '\n';
    const std::size_t next = std::min(rest.find_first_not_of(' ', bytes), rest.size());
    rest = std::string(indent, ' ') + rest.substr(next);
    begin = indent;
  }
  return rows + rest;
}

}  // namespace

std::size_t width(std::string_view text) {
  return static_cast<std::size_t>(
      std::ranges::count_if(text, [](char c) { return !continues(c); }));
}

std::string cut(std::string_view text, std::size_t columns) {
  std::size_t bytes = 0;
  for (std::size_t characters = 0; bytes < text.size(); ++bytes) {
    if (!continues(text[bytes]) && characters++ == columns) break;
  }
  return std::string(text.substr(0, bytes));
}

std::string fold(std::string_view text, std::size_t columns, std::size_t more) {
  columns = std::max(columns, kFewestColumns);
  std::string folded;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    folded += folded_line(text.substr(begin, end - begin), columns, more);
    if (end < text.size()) folded += '\n';
    begin = end + 1;
  }
  return folded;
}

}  // namespace lowtide::report
