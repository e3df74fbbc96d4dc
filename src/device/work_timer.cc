#include "device/work_timer.h"

#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <chrono>

namespace lowtide::device {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_between(Clock::time_point begin, Clock::time_point end) {
  return std::chrono::duration<double>(end - begin).count();
}

class ClockTimer final : public WorkTimer {
 public:
  void start() override { begin_ = Clock::now(); }
  void stop() override { end_ = Clock::now(); }
  Times times() override { return {.work_seconds = seconds_between(begin_, end_)}; }

 private:
  Clock::time_point begin_, end_;
};

class EventTimer final : public WorkTimer {
 public:
  explicit EventTimer(c10::Device device)
      : device_(device), before_(timed(device)), after_(timed(device)) {}

  void start() override {
    before_.record(stream());
    begin_ = Clock::now();
  }

  void stop() override {
    end_ = Clock::now();
    after_.record(stream());
  }

  Times times() override {
    after_.synchronize();
    constexpr double kMilliseconds = 1e-3;  // the unit of events
    return {.work_seconds = before_.elapsedTime(after_) * kMilliseconds,
            .launch_seconds = seconds_between(begin_, end_)};
  }

 private:
  static c10::Event timed(c10::Device device) {
    return c10::Event(device.type(), c10::EventFlag::BACKEND_DEFAULT);
  }

  c10::Stream stream() const {
    return c10::impl::VirtualGuardImpl(device_.type()).getStream(device_);
  }

  c10::Device device_;
  c10::Event before_, after_;
  Clock::time_point begin_, end_;
};

}  // namespace

std::unique_ptr<WorkTimer> clock_timer() { return std::make_unique<ClockTimer>(); }

std::unique_ptr<WorkTimer> event_timer(c10::Device device) {
  return std::make_unique<EventTimer>(device);
}

}  // namespace lowtide::device
