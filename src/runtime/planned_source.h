#pragma once

#include <cstdint>
#include <span>

#include "runtime/allocation.h"

namespace lowtide {

/// An address that was planned for one request.
struct Slot {
  std::byte* data = nullptr;
  Bytes bytes = 0;
};

/// Serves the k-th request of the running op from the k-th of its slots. A request that is larger
/// than its slot, or one too many, is an overrun: refused, or taken from a reserve that the ops use
/// one after the other.
class PlannedSource final : public MemorySource {
 public:
  /// `reserve` is empty where overruns are refused.
  explicit PlannedSource(Slot reserve) : reserve_(reserve) {}

  /// The next op runs. Nothing that was served from the reserve may live on.
  void begin(std::span<const Slot> slots);
  /// Throws Error that says what was asked for and what was planned.
  Grant allocate(std::size_t bytes) override;

  /// Bytes that the running op took from the reserve.
  Bytes overrun_bytes() const { return overrun_; }
  std::int64_t requests() const { return requests_; }
  /// End of the highest address served since reset().
  const std::byte* highest() const { return highest_; }
  void reset();

 private:
  Grant overrun(Bytes bytes, Bytes planned);

  Slot reserve_;
  std::span<const Slot> slots_;
  std::size_t next_ = 0;
  Bytes overrun_ = 0;  ///< of the running op: also how much of the reserve is taken
  std::int64_t requests_ = 0;
  const std::byte* highest_ = nullptr;
};

}  // namespace lowtide
