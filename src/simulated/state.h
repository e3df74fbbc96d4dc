#pragma once

#include <c10/core/Device.h>

#include <atomic>
#include <cstdint>

#include "base/bytes.h"
#include "simulated/hardware/memory.h"
#include "simulated/hardware/streams.h"

namespace lowtide::simulated {

constexpr c10::DeviceType kDeviceType = c10::DeviceType::PrivateUse1;
inline const c10::Device kDevice(kDeviceType, 0);

/// What the one simulated device of a process has.
struct State {
  State(Bytes bytes, bool late, std::uint64_t seed) : streams(late, seed), memory(bytes, streams) {}
  Streams streams;
  Memory memory;
  /// How often the host asked for work: for a kernel, a copy, or all of a graph.
  std::atomic<std::int64_t> launches = 0;
};

bool is_installed();
/// Precondition: is_installed().
State& state();
/// To be called once. The state outlives every tensor of the program.
void make_state(Bytes bytes, bool late, std::uint64_t seed);

}  // namespace lowtide::simulated
