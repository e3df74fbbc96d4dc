#include "cli/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <string>
#include <string_view>

namespace lowtide::cli {
namespace {

constexpr std::string_view kClear = "\r\033[K";
bool is_line_shown = false;  // one for the process, as standard error is

std::string_view environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string_view() : value;
}

/// The first that is set counts, as for setlocale().
bool is_utf8() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    if (environment(name).empty()) continue;
    std::string value(environment(name));
    std::ranges::transform(value, value.begin(), [](unsigned char c) { return std::tolower(c); });
    return value.find("utf-8") != std::string::npos || value.find("utf8") != std::string::npos;
  }
  return false;
}

}  // namespace

std::optional<std::size_t> terminal_columns(int descriptor) {
  winsize size = {};
  if (!::isatty(descriptor) || ::ioctl(descriptor, TIOCGWINSZ, &size) != 0) return std::nullopt;
  return size.ws_col > 0 ? std::optional<std::size_t>(size.ws_col) : std::nullopt;
}

bool can_overwrite(int descriptor) {
  const std::string_view kind = environment("TERM");
  return ::isatty(descriptor) && !kind.empty() && kind != "dumb";
}

void show_line(std::string_view text) {
  std::cerr << kClear << text << std::flush;
  is_line_shown = true;
}

void clear_line() {
  if (is_line_shown) std::cerr << kClear << std::flush;
  is_line_shown = false;
}

bool shows_blocks() {
  return can_overwrite(STDOUT_FILENO) && environment("TERM") != "linux" && is_utf8();
}

}  // namespace lowtide::cli
