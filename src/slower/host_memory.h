#pragma once

#include <optional>

#include "slower/place.h"

namespace lowtide::slower {

/// Memory of this machine that no budget counts, for values of steps on the CPU: so a step runs as
/// on a device with memory of its own, beside the host's.
class HostMemory final : public Place {
 public:
  /// `speed`: of a bus that copies are to be as slow as; none: they are as fast as memory is.
  explicit HostMemory(std::optional<LaneSpeed> speed = std::nullopt) : speed_(speed) {}

  std::string name() const override { return "memory of this machine"; }
  std::string medium() const override { return "memory of this machine"; }
  Bytes free_bytes() const override;
  Bytes buffer_bytes() const override { return 0; }
  /// The speed that was given, or that of memory, measured.
  LaneSpeed measured() const override;
  std::unique_ptr<Store> open(Bytes bytes) const override;

 private:
  const std::optional<LaneSpeed> speed_;
};

}  // namespace lowtide::slower
