#pragma once

#include "device/device.h"
#include "slower/place.h"

namespace lowtide::device {

/// Memory of the host as the slower memory of a device that has its own. Stores copy between the
/// device's memory and pinned memory of the host, on two streams beside the caller's: one for each
/// direction.
///
/// A copy begins after what was asked of the caller's stream before it. wait() returns at once:
/// what is asked of the caller's stream afterwards is done after the copy. Counters include the
/// copies and waits that the device has done; they wait for those it was asked for.
class HostPlace final : public slower::Place {
 public:
  /// `device` must outlive the place. Throws InputError for a device whose memory is the host's.
  explicit HostPlace(const ComputeDevice& device);

  std::string name() const override;
  std::string medium() const override;
  Bytes free_bytes() const override;
  Bytes buffer_bytes() const override { return 0; }
  /// Takes 32 MiB of the device's memory meanwhile.
  slower::LaneSpeed measured() const override;
  std::unique_ptr<slower::Store> open(Bytes bytes) const override;

 private:
  const ComputeDevice& device_;
};

}  // namespace lowtide::device
