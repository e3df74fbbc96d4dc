#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/bytes.h"

namespace lowtide::runtime {

/// What one step really did.
struct StepReport {
  double seconds = 0;
  Bytes measured_peak_bytes = 0;      ///< highest byte in use, residents and reserve included
  std::int64_t allocations = 0;       ///< requests of ops, all served inside the arena
  Bytes outside_bytes = 0;            ///< peak of what the framework's allocator gave besides: 0
  std::vector<std::string> overruns;  ///< one line per op that asked for more than was profiled
  /// Per action. Arena: views are made in the first step only, and cost nothing after it.
  std::vector<double> action_seconds;
  std::vector<Bytes> action_memory;   ///< bytes of live tensors after each action
};

}  // namespace lowtide::runtime
