#pragma once

#include "base/bytes.h"
#include "slower/lanes.h"
#include "slower/speed.h"

namespace lowtide::slower {

/// Slower memory in memory of the host, for devices that have their own, and for tests.
class HostStore final : public LaneStore {
 public:
  /// Takes `bytes` from the system when they are first written. Each write takes the time that
  /// `speed` says, and so does each read of what one write put there; without one they are as fast
  /// as the host copies. With `speed.shared`, the bytes of both directions go one after the other.
  /// Throws InputError for a speed that is negative or no number, and Error when the system refuses
  /// the memory.
  explicit HostStore(Bytes bytes, const LaneSpeed& speed = {});
};

}  // namespace lowtide::slower
