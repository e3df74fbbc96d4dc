#pragma once

#include <filesystem>

#include "device/device.h"
#include "slower/disk.h"

namespace lowtide::device {

/// A folder on a disk as the slower memory of a device that has its own memory. Bytes go through
/// pinned memory of the host, 8 MiB for each store, beside the buffers of the disk.
///
/// A copy begins after what was asked of the caller's stream before it, and wait() returns when it
/// has ended: so the host waits for the disk, and what is asked of a stream afterwards is done
/// after the copy.
class DiskPlace final : public slower::Place {
 public:
  /// `device` must outlive the place. Throws as slower::Disk, and InputError for a device whose
  /// memory is the host's.
  DiskPlace(const ComputeDevice& device, std::filesystem::path folder);

  std::string name() const override { return disk_.name(); }
  std::string medium() const override;
  Bytes free_bytes() const override { return disk_.free_bytes(); }
  Bytes buffer_bytes() const override { return 0; }
  /// Takes up to 64 MiB of the device's memory meanwhile.
  slower::LaneSpeed measured() const override;
  std::unique_ptr<slower::Store> open(Bytes bytes) const override;

 private:
  const ComputeDevice& device_;
  const slower::Disk disk_;
};

}  // namespace lowtide::device
