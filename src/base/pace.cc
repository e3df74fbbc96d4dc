#include "base/pace.h"

namespace lowtide {

double Pace::used_seconds() const {
  constexpr double kLate = 0.1;  // of the limit: when the clock starts
  const double elapsed = std::chrono::duration<double>(Clock::now() - start_).count();
  const double by_clock = (elapsed - kLate * limit_seconds_) / (1 - kLate);
  const double by_work = work_seconds_.load(std::memory_order_relaxed);
  if (clocked_ == Clocked::no || by_clock <= by_work) return by_work;
  was_behind_.store(true, std::memory_order_relaxed);
  return by_clock;
}

}  // namespace lowtide
