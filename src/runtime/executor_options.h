#pragma once

#include <cstdint>

#include "base/bytes.h"
#include "device/device.h"
#include "slower/store.h"

namespace lowtide::runtime {

/// The memory of an Executor's step, and the reaction to missing memory.
struct ExecutorOptions {
  enum class Memory : std::uint8_t {
    arena,  ///< every byte at its planned address
    pool    ///< allocate when needed, recycle, as frameworks do; for comparison
  };
  enum class Overrun : std::uint8_t { stop, reserve };

  Memory memory = Memory::arena;
  /// The reaction when an op requests more than profiled: stop with an Error that names the op and
  /// the bytes, or use `reserve_bytes`, continue and add it to the report.
  Overrun overrun = Overrun::stop;
  Bytes reserve_bytes = 0;  ///< rounded down to a multiple of the graph's alignment
  /// Most that the pool may take; 0: what this machine has. A device whose memory is not the host's
  /// gives all of them at once, and needs a number.
  Bytes pool_bytes = 0;
  bool record_times = false;  ///< fill StepReport::action_seconds and action_memory
  /// For plans that move values: where to. Must outlive the Executor; null: nowhere.
  slower::Store* slower = nullptr;
  /// Must outlive the Executor.
  const device::ComputeDevice* device = &device::cpu_device();
};

}  // namespace lowtide::runtime
