#include "base/pace.h"

#include <limits>

namespace lowtide {
namespace {
constexpr double kLate = 0.1;  // of the limit: when the clock starts
}

double Pace::used_seconds() const {
  const double by_clock = (elapsed_seconds() - kLate * limit_seconds_) / (1 - kLate);
  const double by_work = work_seconds_.load(std::memory_order_relaxed);
  if (clocked_ == Clocked::no || by_clock <= by_work) return by_work;
  was_behind_.store(true, std::memory_order_relaxed);
  return by_clock;
}

double Pace::clock_seconds_until(double used) const {
  if (clocked_ == Clocked::no) return std::numeric_limits<double>::infinity();
  return kLate * limit_seconds_ + (1 - kLate) * used - elapsed_seconds();
}

double Pace::elapsed_seconds() const {
  return std::chrono::duration<double>(Clock::now() - start_).count();
}

}  // namespace lowtide
