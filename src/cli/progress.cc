#include "cli/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <iostream>
#include <string_view>

namespace lowtide::cli {
namespace {

std::string line(const train::StepProgress& p) {
  return fmt::format("step {}/{}  loss {:.4f}  {:.1f} {}/s  memory peak {}, process {}", p.step,
                     p.steps, p.loss, p.items_per_second, p.items,
                     format_bytes(p.memory_peak_bytes), format_bytes(p.memory_now_bytes));
}

/// Whether lines can be written over.
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
  std::cerr << message << std::endl;
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

train::TrainListener Progress::listener() {
  return {.message = messages(),
          .step = [this](const train::StepProgress& p) { show(line(p), p.step == p.steps); }};
}

}  // namespace lowtide::cli
