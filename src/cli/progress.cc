#include "cli/progress.h"

#include <unistd.h>

#include <iostream>
#include <string_view>

#include "cli/terminal.h"
#include "report/fold.h"

namespace lowtide::cli {
namespace {

constexpr std::string_view kNote = "note: ", kWarning = "warning: ";

/// A longer line would take several rows, of which only the last can be overwritten.
std::string cut_to_terminal(const std::string& message) {
  const auto columns = terminal_columns(STDERR_FILENO);
  return columns ? report::cut(message, *columns - 1) : message;
}

}  // namespace

Progress::Progress(bool quiet) : quiet_(quiet), terminal_(can_overwrite(STDERR_FILENO)) {}

Progress::~Progress() { clear_line(); }

void Progress::say(const std::string& message) {
  if (quiet_ && !message.starts_with(kWarning)) return;
  clear_line();
  const auto columns = terminal_columns(STDERR_FILENO);
  std::cerr << (columns ? report::fold(message, *columns) : message) << '\n';
}

void Progress::show(const std::string& message, bool last) {
  if (quiet_) return;
  const auto now = Clock::now();
  if (now < next_ && !last) return;
  next_ = now + (terminal_ ? std::chrono::milliseconds(100) : std::chrono::milliseconds(1000));
  if (!terminal_ || last) return say(message);
  show_line(cut_to_terminal(message));
}

std::function<void(const std::string&)> Progress::messages() {
  return [this](const std::string& message) {
    const bool stays = message.starts_with(kNote) || message.starts_with(kWarning);
    stays ? say(message) : show(message);
  };
}

}  // namespace lowtide::cli
