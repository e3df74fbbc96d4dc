#include "cli/output.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <iostream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "cli/terminal.h"
#include "report/fold.h"

namespace lowtide::cli {

std::string percent(std::optional<double> share) {
  return share ? fmt::format("{:.1f}%", 100 * *share) : "-";
}

std::string duration(double seconds) {
  if (seconds >= 1) return fmt::format("{:.2f} s", seconds);
  return seconds >= 1e-3 ? fmt::format("{:.1f} ms", seconds * 1e3)
                         : fmt::format("{:.1f} us", seconds * 1e6);
}

std::string bytes_or_dash(std::optional<Bytes> bytes) { return bytes ? format_bytes(*bytes) : "-"; }

std::size_t output_columns() { return terminal_columns(STDOUT_FILENO).value_or(report::kAnyWidth); }

void print_verbatim(std::string_view text) {
  static bool is_unread = false;  // the reader has gone, and the command must stop (signals.h)
  if (is_unread) return;
  clear_line();
  errno = 0;
  std::cout << text << std::flush;
  if (std::cout) return;
  if (errno != EPIPE) {
    throw Error(fmt::format("cannot write to standard output: {}", std::strerror(errno)));
  }
  is_unread = true;
}

void print(std::string_view text) { print_verbatim(report::fold(text, output_columns())); }

void print_json(const nlohmann::json& document) {
  using nlohmann::json;
  print_verbatim(document.dump(2, ' ', false, json::error_handler_t::replace) + "\n");
}

}  // namespace lowtide::cli
