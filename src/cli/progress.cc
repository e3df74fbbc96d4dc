#include "cli/progress.h"

#include <unistd.h>

#include <cstdlib>
#include <iostream>
#include <string_view>

namespace lowtide::cli {
namespace {

/// Whether lines can be overwritten.
bool is_terminal() {
  const char* kind = std::getenv("TERM");
  return ::isatty(STDERR_FILENO) && kind != nullptr && std::string_view(kind) != "dumb";
}

}  // namespace

Progress::Progress() : terminal_(is_terminal()) {}

Progress::~Progress() { clear(); }

void Progress::clear() {
  if (dirty_) std::cerr << "\r\033[K" << std::flush;
  dirty_ = false;
}

void Progress::say(const std::string& message) {
  clear();
  std::cerr << message << '\n';
}

void Progress::show(const std::string& message, bool last) {
  const auto now = Clock::now();
  if (now < next_ && !last) return;
  next_ = now + (terminal_ ? std::chrono::milliseconds(100) : std::chrono::milliseconds(1000));
  if (!terminal_ || last) return say(message);
  std::cerr << "\r\033[K" << message << std::flush;
  dirty_ = true;
}

std::function<void(const std::string&)> Progress::messages() {
  return [this](const std::string& message) {
    const bool stays = message.starts_with("note: ") || message.starts_with("warning: ");
    stays ? say(message) : show(message);
  };
}

}  // namespace lowtide::cli
