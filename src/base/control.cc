#include "base/control.h"

#include <atomic>
#include <utility>

namespace lowtide {
namespace {
std::atomic<bool> stop_flag{false};
static_assert(std::atomic<bool>::is_always_lock_free, "a signal handler sets the flag");
}  // namespace

Control::Control(double seconds, Listener listener)
    : limit_seconds_(seconds > 0 ? seconds : 0), listener_(std::move(listener)) {}

bool Control::should_stop() const {
  return stop_requested() || (limit_seconds_ > 0 && elapsed_seconds() >= limit_seconds_);
}

bool Control::stop_requested() { return stop_flag.load(std::memory_order_relaxed); }
void Control::request_stop() { stop_flag.store(true, std::memory_order_relaxed); }
void Control::clear_stop() { stop_flag.store(false, std::memory_order_relaxed); }

void Control::report(const std::string& message) const {
  if (listener_) listener_(message);
}

double Control::elapsed_seconds() const {
  return std::chrono::duration<double>(Clock::now() - start_).count();
}

}  // namespace lowtide
