#pragma once

#include <cstdint>
#include <span>

#include "device/allocation.h"

namespace lowtide::device {

/// The planned address of one request, or a request that `beyond` serves by plan.
struct Slot {
  std::byte* data = nullptr;
  Bytes bytes = 0;
  Bytes offset = 0;  ///< of the address, from the start of the block
  bool beyond = false;
  bool scratch = false;  ///< shares its address with requests at other times of the profile
};

/// Serves the k-th request of the running op from its k-th slot. A request that is larger than its
/// slot, or that has no slot, is an overrun: it is served from a reserve that the ops share in
/// turn, else from another source, if there is one, else refused. With another source, an op strays
/// from its profile at the first scratch request of another size than profiled. All its further
/// requests are overruns, since requests that shared an address may now live together.
class PlannedSource final : public MemorySource {
 public:
  /// `reserve` may be empty. Without `beyond` (null), requests that exceed the reserve are refused.
  /// Addresses in the reserve are multiples of `alignment`, from its begin on.
  explicit PlannedSource(Slot reserve, MemorySource* beyond = nullptr,
                         Bytes alignment = kArenaAlignment)
      : reserve_(reserve), beyond_(beyond), alignment_(alignment) {}

  /// The next op runs. Precondition: no memory from the reserve is live.
  void begin(std::span<const Slot> slots);
  /// The running op differs from its profile: its other slots are not used.
  void stray() { strayed_ = beyond_ != nullptr; }
  /// Throws Error with the requested and the planned bytes.
  Grant allocate(std::size_t bytes) override;

  /// Bytes of the running op outside its slots.
  Bytes overrun_bytes() const { return overrun_ + beyond_bytes_; }
  std::int64_t requests() const { return requests_; }
  /// The highest end of memory served since reset(), from the start of the block.
  Bytes highest() const { return highest_; }
  void reset();

 private:
  Grant overrun(Bytes bytes, Bytes planned);

  Slot reserve_;
  MemorySource* beyond_;
  Bytes alignment_;
  std::span<const Slot> slots_;
  std::size_t next_ = 0;
  bool strayed_ = false;    ///< whether the running op differs from its profile
  Bytes overrun_ = 0;       ///< of the running op: the used bytes of the reserve
  Bytes beyond_bytes_ = 0;  ///< of the running op
  std::int64_t requests_ = 0;
  Bytes highest_ = 0;
};

}  // namespace lowtide::device
