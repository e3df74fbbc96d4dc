#pragma once

#include <vector>

#include "device/device.h"

namespace lowtide::device {

/// At the end of its life the device's random generator is as it was at the begin.
class UntouchedGenerator {
 public:
  explicit UntouchedGenerator(const ComputeDevice& device)
      : device_(device), state_(static_cast<std::size_t>(device.generator_state_bytes())) {
    device_.save_generator(state_.data());
  }
  ~UntouchedGenerator() { device_.restore_generator(state_.data()); }
  UntouchedGenerator(const UntouchedGenerator&) = delete;
  UntouchedGenerator& operator=(const UntouchedGenerator&) = delete;

 private:
  const ComputeDevice& device_;
  std::vector<std::byte> state_;
};

}  // namespace lowtide::device
