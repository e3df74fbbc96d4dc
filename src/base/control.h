#pragma once

#include <chrono>
#include <functional>
#include <string>

namespace lowtide {

/// How long work may go on, and whom to tell how far it is. Passed by reference to everything
/// that can take long; it polls should_stop() and returns the best it has when that turns true.
class Control {
 public:
  using Clock = std::chrono::steady_clock;
  using Listener = std::function<void(const std::string& message)>;

  Control() = default;
  /// `seconds` <= 0 means no limit. `listener` may be empty.
  explicit Control(double seconds, Listener listener = {});

  /// True after the time limit, or after request_stop() was called anywhere in the process.
  bool should_stop() const;
  /// True only after request_stop(): the user asked, so a command ends as `stopped`.
  static bool stop_requested();
  /// Async-signal-safe, so that a SIGINT handler may call it.
  static void request_stop();
  /// Forgets an earlier request; for tests and for embedding programs.
  static void clear_stop();

  void report(const std::string& message) const;
  double elapsed_seconds() const;
  /// The limit in seconds; 0 when there is none.
  double limit_seconds() const { return limit_seconds_; }

 private:
  Clock::time_point start_ = Clock::now();
  double limit_seconds_ = 0;
  Listener listener_;
};

}  // namespace lowtide
