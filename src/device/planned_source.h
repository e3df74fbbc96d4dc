#pragma once

#include <cstdint>
#include <span>

#include "device/allocation.h"

namespace lowtide::device {

/// An address that was planned for one request; or that it was planned to be served from beyond.
struct Slot {
  std::byte* data = nullptr;
  Bytes bytes = 0;
  Bytes offset = 0;      ///< of the address, from the start of the block
  bool beyond = false;
  bool scratch = false;  ///< shares its address with requests that the profile saw at other times
};

/// Serves the k-th request of the running op from the k-th of its slots. A request that is larger
/// than its slot, or one too many, is an overrun: taken from a reserve that the ops use one after
/// the other, or where that is full from another source, or refused. Where there is another source,
/// so are all requests of an op that strays from its profile, from the first scratch on that is not
/// of exactly the size that was profiled: what was not alive together then may be now.
class PlannedSource final : public MemorySource {
 public:
  /// `reserve` may be empty; `beyond` is null where what exceeds it is refused.
  explicit PlannedSource(Slot reserve, MemorySource* beyond = nullptr)
      : reserve_(reserve), beyond_(beyond) {}

  /// The next op runs. Nothing that was served from the reserve may live on.
  void begin(std::span<const Slot> slots);
  /// The running op asks otherwise than in its profile: none of its slots is used from now on.
  void stray() { strayed_ = beyond_ != nullptr; }
  /// Throws Error that says what was asked for and what was planned.
  Grant allocate(std::size_t bytes) override;

  /// Bytes that the running op took beyond its slots.
  Bytes overrun_bytes() const { return overrun_ + beyond_bytes_; }
  std::int64_t requests() const { return requests_; }
  /// The highest end, from the start of the block, of what was served from slots since reset().
  Bytes highest() const { return highest_; }
  void reset();

 private:
  Grant overrun(Bytes bytes, Bytes planned);

  Slot reserve_;
  MemorySource* beyond_;
  std::span<const Slot> slots_;
  std::size_t next_ = 0;
  bool strayed_ = false;  ///< whether the running op asks otherwise than in its profile
  Bytes overrun_ = 0;  ///< of the running op: also how much of the reserve is taken
  Bytes beyond_bytes_ = 0;  ///< of the running op
  std::int64_t requests_ = 0;
  Bytes highest_ = 0;
};

}  // namespace lowtide::device
