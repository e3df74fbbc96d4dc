#pragma once

#include <cstdint>

#include "base/bytes.h"

namespace lowtide::runtime {

/// Where an Executor keeps what a step holds, and what it does when that is not enough.
struct ExecutorOptions {
  enum class Memory : std::uint8_t {
    arena,  ///< every byte at its planned address
    pool    ///< allocate when needed, recycle: what frameworks do, for comparison
  };
  enum class Overrun : std::uint8_t { stop, reserve };

  Memory memory = Memory::arena;
  /// What happens when an op asks for more than was profiled: stop with an Error that names the op
  /// and the bytes, or take it from `reserve_bytes` and go on (and say so in the report).
  Overrun overrun = Overrun::stop;
  Bytes reserve_bytes = 0;    ///< rounded down to a multiple of 64
  bool record_times = false;  ///< fill StepReport::action_seconds and action_memory
};

}  // namespace lowtide::runtime
