#pragma once

#include "device/device.h"

namespace lowtide::device {

/// Lets a second execution of a random op draw what the first one drew: sets the generator to the
/// saved state, and at the end of its life back to where it was.
class ReplayedDraw {
 public:
  /// `present` is room for one state.
  ReplayedDraw(const ComputeDevice& device, const std::byte* saved, std::byte* present)
      : device_(device), present_(present) {
    device_.save_generator(present_);
    device_.restore_generator(saved);
  }
  ~ReplayedDraw() { device_.restore_generator(present_); }
  ReplayedDraw(const ReplayedDraw&) = delete;
  ReplayedDraw& operator=(const ReplayedDraw&) = delete;

 private:
  const ComputeDevice& device_;
  std::byte* present_;
};

}  // namespace lowtide::device
