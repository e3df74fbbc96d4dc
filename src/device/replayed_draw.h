#pragma once

#include "device/device.h"

namespace lowtide::device {

/// Lets a second execution of a random op draw the same numbers: sets the generator to the saved
/// state, and restores the present state at the end of its life.
class ReplayedDraw {
 public:
  /// `present` is a buffer for one state.
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
