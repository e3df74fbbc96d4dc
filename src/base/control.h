#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

namespace lowtide {

class Pace;

/// How long work may go on, and whom to tell how far it is. Passed by reference to everything
/// that can take long; it polls should_stop() and returns the best it has when that turns true.
///
/// A limit is used up by work that is counted, the same in every run, and by the clock only where
/// that is ahead: on a machine that is no slower than counted on, what is found within a limit does
/// not depend on what else the machine does.
class Control {
 public:
  using Clock = std::chrono::steady_clock;
  using Listener = std::function<void(const std::string& message)>;

  Control() = default;
  /// `seconds` <= 0 means no limit. `listener` may be empty.
  explicit Control(double seconds, Listener listener = {});
  /// For a part of the work under `whole`, which uses up the limit of both.
  Control(const Control& whole, double seconds, Listener listener = {});
  /// Limited by the work that is counted alone, however long that takes.
  static Control by_work(double seconds);

  /// True when the limit is used up, or after request_stop() was called anywhere in the process.
  bool should_stop() const;
  /// True only after request_stop(): the user asked, so a command ends as `stopped`.
  static bool stop_requested();
  /// Async-signal-safe, so that a SIGINT handler may call it.
  static void request_stop();
  /// Forgets an earlier request; for tests and for embedding programs.
  static void clear_stop();

  void report(const std::string& message) const;
  /// By the clock.
  double elapsed_seconds() const;
  /// The limit in seconds; 0 when there is none.
  double limit_seconds() const { return limit_seconds_; }
  /// Of the limit: what is used up, and what is left, in seconds; and the share that is used up,
  /// 0 where there is no limit.
  double used_seconds() const;
  double left_seconds() const { return limit_seconds_ - used_seconds(); }
  double used_share() const { return limit_seconds_ > 0 ? used_seconds() / limit_seconds_ : 0; }
  /// Whether the clock has been ahead of the work: then another run may find something else.
  bool is_behind() const;

  /// Uses up the limit by work that takes so many nanoseconds on the machine that is counted on.
  void count(double nanoseconds) const;

 private:
  Clock::time_point start_ = Clock::now();
  double limit_seconds_ = 0;
  std::shared_ptr<Pace> pace_;  // with all parts of the same whole; null without a limit
  double used_before_ = 0;      // of the whole's limit
  Listener listener_;
};

}  // namespace lowtide
