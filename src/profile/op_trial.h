#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "cost/profile.h"
#include "device/device.h"

namespace lowtide::profile {

/// Of a run that takes longer, what sets up the first one, and what others do to it, is a small
/// part: it is timed once.
constexpr double kLongSeconds = 1;

/// Memory of a device for the tensors of one op at a time, reused for each trial.
class TrialMemory {
 public:
  /// The device must outlive this object.
  explicit TrialMemory(const device::ComputeDevice& device);
  /// `bytes` bytes for the inputs, or for all else, until the next call. Throws Error when the
  /// device has no more.
  std::byte* take_inputs(Bytes bytes) { return take(inputs_, bytes); }
  std::byte* take_rest(Bytes bytes) { return take(rest_, bytes); }
  /// Does what the other ops of a step do before an op runs. Where the host works itself, reads and
  /// writes `bytes` other bytes (at most the last cache). Else, gives the device work that takes it
  /// longer than the host takes to submit an op, so that it does not wait for the host.
  void disturb(Bytes bytes);

 private:
  struct Room {
    std::shared_ptr<std::byte> memory;
    Bytes bytes = 0;
  };
  std::byte* take(Room& room, Bytes bytes);
  void find_work();

  const device::ComputeDevice& device_;
  Room inputs_, rest_;
  std::vector<std::byte> other_;    ///< of the host
  Room work_;                       ///< an element, on a device that works late
  std::int64_t busy_elements_ = 0;  ///< as many are added up to keep it busy
};

/// Runs one op of an executable graph on synthetic inputs; records its allocations, and its time,
/// unless it takes kLongSeconds at planned addresses, as in a step. Restores the global generator.
/// Throws Error that names the op when it fails.
cost::OpProfile try_op(const Graph& graph, OpId op, const device::ComputeDevice& device,
                       TrialMemory& room);

}  // namespace lowtide::profile
