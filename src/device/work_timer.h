#pragma once

#include <c10/core/Device.h>

#include <memory>

namespace lowtide::device {

/// Measures work that the host submits to a device between start() and stop().
class WorkTimer {
 public:
  struct Times {
    double work_seconds = 0;    ///< the device's
    double launch_seconds = 0;  ///< the host's, to submit it; 0 where the host does the work itself
  };

  virtual ~WorkTimer() = default;
  virtual void start() = 0;
  virtual void stop() = 0;
  /// Waits until the work is done.
  virtual Times times() = 0;
};

/// For a device whose work is done when the call that asks for it returns: a steady clock.
std::unique_ptr<WorkTimer> clock_timer();
/// For a device that works later than it is asked to: events on the current stream of `device`, so
/// that neither what the stream did before nor the host's time counts as work.
std::unique_ptr<WorkTimer> event_timer(c10::Device device);

}  // namespace lowtide::device
