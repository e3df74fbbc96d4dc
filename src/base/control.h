#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

namespace lowtide {

class Pace;

/// A time limit and a listener for progress. Every function that can take long gets it by
/// reference, polls should_stop(), and returns its best result so far when that is true.
///
/// Counted work, the same in every run, uses up the limit; the clock does so only when it is ahead
/// of the work. On a machine at least as fast as assumed, a result therefore does not depend on the
/// other load of the machine.
class Control {
 public:
  using Clock = std::chrono::steady_clock;
  using Listener = std::function<void(const std::string& message)>;

  Control() = default;
  /// `seconds` <= 0 means no limit. `listener` may be empty.
  explicit Control(double seconds, Listener listener = {});
  /// For a part of the work under `whole`; the part uses up both limits.
  Control(const Control& whole, double seconds, Listener listener = {});
  /// Limited by the counted work alone; the clock does not matter.
  static Control by_work(double seconds, Listener listener = {});
  /// The same limit, of the same kind and with the same listener, none of it used.
  Control renewed() const;

  /// True when the limit is used up, or after request_stop() was called anywhere in the process.
  bool should_stop() const;
  /// True only after request_stop(): the user asked to stop, so a command ends as `stopped`.
  static bool stop_requested();
  /// Async-signal-safe, so that a SIGINT handler may call it.
  static void request_stop();
  /// Forgets an earlier request; for tests and for embedding programs.
  static void clear_stop();

  void report(const std::string& message) const;
  /// Time on the clock, not counted work.
  double elapsed_seconds() const;
  /// The limit in seconds; 0 when there is none.
  double limit_seconds() const { return limit_seconds_; }
  /// The used and the remaining seconds of the limit, and the used share of it (0 when there is no
  /// limit).
  double used_seconds() const;
  double left_seconds() const { return limit_seconds_ - used_seconds(); }
  double used_share() const { return limit_seconds_ > 0 ? used_seconds() / limit_seconds_ : 0; }
  /// Time on the clock in which it uses up the limit, should no work be counted meanwhile; infinite
  /// when there is no limit, or the clock does not matter.
  double clock_left_seconds() const;
  /// Whether the clock has been ahead of the work: then another run may give another result.
  bool is_behind() const;

  /// Uses up the limit by work that takes this many nanoseconds on the reference machine.
  void count(double nanoseconds) const;

 private:
  Clock::time_point start_ = Clock::now();
  double limit_seconds_ = 0;
  std::shared_ptr<Pace> pace_;  // shared by all parts of one whole; null without a limit
  double used_before_ = 0;      // of the whole's limit
  Listener listener_;
};

}  // namespace lowtide
