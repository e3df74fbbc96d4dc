#include "base/control.h"

#include <atomic>
#include <limits>
#include <utility>

#include "base/pace.h"

namespace lowtide {
namespace {
std::atomic<bool> stop_flag{false};
static_assert(std::atomic<bool>::is_always_lock_free, "a signal handler sets the flag");
}  // namespace

Control::Control(double seconds, Listener listener)
    : limit_seconds_(seconds > 0 ? seconds : 0), listener_(std::move(listener)) {
  if (limit_seconds_ > 0) pace_ = std::make_shared<Pace>(limit_seconds_);
}

Control::Control(const Control& whole, double seconds, Listener listener)
    : limit_seconds_(seconds > 0 ? seconds : 0),
      pace_(whole.pace_),
      used_before_(pace_ ? pace_->used_seconds() : 0),
      listener_(std::move(listener)) {
  if (limit_seconds_ > 0 && !pace_) pace_ = std::make_shared<Pace>(limit_seconds_);
}

Control Control::by_work(double seconds, Listener listener) {
  Control control(seconds, std::move(listener));
  control.pace_ = std::make_shared<Pace>(control.limit_seconds_, Pace::Clocked::no);
  return control;
}

Control Control::renewed() const {
  Control control(limit_seconds_, listener_);
  if (control.pace_) control.pace_ = std::make_shared<Pace>(limit_seconds_, pace_->clocked());
  return control;
}

bool Control::should_stop() const {
  return stop_requested() || (limit_seconds_ > 0 && used_seconds() >= limit_seconds_);
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

double Control::used_seconds() const {
  return pace_ ? pace_->used_seconds() - used_before_ : elapsed_seconds();
}

double Control::clock_left_seconds() const {
  if (!pace_ || limit_seconds_ <= 0) return std::numeric_limits<double>::infinity();
  return pace_->clock_seconds_until(used_before_ + limit_seconds_);
}

bool Control::is_behind() const { return pace_ && pace_->was_behind(); }

void Control::count(double nanoseconds) const {
  if (pace_) pace_->count(1e-9 * nanoseconds);
}

}  // namespace lowtide
