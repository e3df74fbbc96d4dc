#pragma once

#include <memory>

#include "cost/profile.h"
#include "device/block.h"
#include "device/device.h"

namespace lowtide::profile {

/// Memory for the tensors of one op at a time, reused for each trial.
class TrialMemory {
 public:
  TrialMemory();
  /// Returns `bytes` bytes from the start of the memory. Throws Error when the system has no more.
  std::byte* take(Bytes bytes);
  /// Reads and writes `bytes` other bytes (at most the last cache), as the other ops of a step do
  /// between two runs of an op.
  void disturb(Bytes bytes);

 private:
  device::Block block_;
  device::OwnedRange range_;
  std::vector<std::byte> other_;
};

/// Runs one op of an executable graph on synthetic inputs; records its allocations, and its time at
/// planned addresses, as in a step. Restores the global generator. Throws Error that names the op
/// when it fails.
cost::OpProfile try_op(const Graph& graph, OpId op, const device::ComputeDevice& device,
                       TrialMemory& room);

}  // namespace lowtide::profile
