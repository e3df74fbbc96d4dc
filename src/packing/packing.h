#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/bytes.h"

namespace lowtide::packing {

using lowtide::kArenaAlignment;

/// A block that needs an address during the half-open interval [begin, end) of actions.
struct Buffer {
  std::int32_t begin = 0;
  std::int32_t end = 0;
  Bytes bytes = 0;
  Bytes alignment = 1;              ///< of its offset, in addition to the packing's; a power of two
  std::optional<Bytes> fixed = {};  ///< the offset that it must have
};

/// Whether a buffer has bytes and a life.
constexpr bool takes_room(const Buffer& buffer) {
  return buffer.bytes > 0 && buffer.begin < buffer.end;
}

/// Offsets, one per buffer, and the resulting height.
struct Packing {
  std::vector<Bytes> offsets;
  Bytes height = 0;
};

/// A lower bound on the height: the largest sum of (aligned) bytes alive at one time, or the
/// highest end of a fixed buffer.
Bytes packing_lower_bound(const std::vector<Buffer>& buffers, Bytes alignment = kArenaAlignment);

/// The work limit of pack(), in comparisons of two buffers and visits of one: a deterministic
/// measure of time, one to two seconds.
inline constexpr std::int64_t kPackingWork = 600'000'000;
/// Nanoseconds per unit of work in a time limit.
inline constexpr double kPackingNanoseconds = 5;

/// The requirements of a packing.
struct PackingGoal {
  Bytes alignment = kArenaAlignment;
  /// The height to reach; a lower one only if found quickly. Empty: as low as possible.
  std::optional<Bytes> capacity = {};
  std::int64_t work = kPackingWork;  ///< at most
};

/// Packs so that no two buffers that are alive together overlap (dynamic storage allocation):
/// heuristics, then an exact search within the work. Calls solve_packing(), which also returns a
/// bound. Deterministic. Throws InputError when fixed offsets contradict each other.
Packing pack(const std::vector<Buffer>& buffers, Bytes alignment = kArenaAlignment,
             std::int64_t work = kPackingWork);

}  // namespace lowtide::packing
