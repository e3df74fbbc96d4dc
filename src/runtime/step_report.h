#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/bytes.h"

namespace lowtide::runtime {

/// The measurements of one step.
struct StepReport {
  double seconds = 0;
  Bytes measured_peak_bytes = 0;      ///< highest byte in use, residents and reserve included
  std::int64_t allocations = 0;       ///< requests of ops, all served inside the arena
  Bytes outside_bytes = 0;            ///< peak of other memory from the framework's allocator: 0
  std::vector<std::string> overruns;  ///< one line per op that requested more than profiled
  /// Per action. Arena: only the first step makes views; later they cost nothing.
  std::vector<double> action_seconds;
  std::vector<Bytes> action_memory;  ///< bytes of live tensors after each action
};

}  // namespace lowtide::runtime
