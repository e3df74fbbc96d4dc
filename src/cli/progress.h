#pragma once

#include <chrono>
#include <functional>
#include <string>

namespace lowtide::cli {

/// Messages on standard error. On a terminal, progress is one line that is overwritten, cut to the
/// terminal's width, until something is printed; elsewhere it is plain lines, at most one a second.
class Progress {
 public:
  /// `quiet`: only warnings are shown.
  explicit Progress(bool quiet);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// A line that stays.
  void say(const std::string& message);
  /// A line that the next one replaces.
  void show(const std::string& message, bool last = false);

  /// A listener for a Control: messages that begin with "note: " or "warning: " stay. The Progress
  /// must outlive it.
  std::function<void(const std::string&)> messages();

 private:
  using Clock = std::chrono::steady_clock;

  bool quiet_;
  bool terminal_;
  Clock::time_point next_ = Clock::time_point::min();
};

}  // namespace lowtide::cli
