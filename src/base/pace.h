#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace lowtide {

/// The used part of a limit in seconds: the counted work, or the clock when that is ahead. The
/// clock starts late, so that a little uncounted work does not put it ahead at once; then it runs
/// faster, so that it reaches the limit when that many seconds have passed.
class Pace {
 public:
  enum class Clocked : std::uint8_t { no, yes };

  explicit Pace(double limit_seconds, Clocked clocked = Clocked::yes)
      : limit_seconds_(limit_seconds), clocked_(clocked) {}

  Clocked clocked() const { return clocked_; }

  /// Thread-safe, as are the other members.
  void count(double seconds) { work_seconds_.fetch_add(seconds, std::memory_order_relaxed); }
  double used_seconds() const;
  /// Seconds until the clock, should no work be counted, makes `used` seconds of the limit used;
  /// infinite when it does not matter.
  double clock_seconds_until(double used) const;
  /// Whether the clock has ever been ahead when used_seconds() was asked.
  bool was_behind() const { return was_behind_.load(std::memory_order_relaxed); }

 private:
  using Clock = std::chrono::steady_clock;

  double elapsed_seconds() const;

  const Clock::time_point start_ = Clock::now();
  const double limit_seconds_;
  const Clocked clocked_;
  std::atomic<double> work_seconds_ = 0;
  mutable std::atomic<bool> was_behind_ = false;
};

}  // namespace lowtide
