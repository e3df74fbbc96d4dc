#pragma once

#include <memory>

#include "cost/profile.h"
#include "device/block.h"
#include "device/device.h"

namespace lowtide::profile {

/// Room for one op's tensors at a time, used again for each trial.
class TrialRoom {
 public:
  TrialRoom();
  /// So many bytes from the start of the room. Throws Error when the system has no more.
  std::byte* take(Bytes bytes);
  /// Reads and writes so many other bytes (at most the last cache), as the rest of a step does
  /// between two runs of an op.
  void disturb(Bytes bytes);

 private:
  device::Block block_;
  device::OwnedRange range_;
  std::vector<std::byte> other_;
};

/// Runs one op of an executable graph on synthetic inputs: what it allocates, and how long it takes
/// at planned addresses, as in a step. Leaves the global generator as it was. Throws Error that
/// names the op when it fails.
cost::OpProfile try_op(const Graph& graph, OpId op, const device::ComputeDevice& device,
                       TrialRoom& room);

}  // namespace lowtide::profile
