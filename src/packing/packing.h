#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/bytes.h"

namespace lowtide::packing {

inline constexpr Bytes kArenaAlignment = 64;  ///< what vector kernels and c10 expect

/// A block that needs an address: bytes over the half-open interval [begin, end) of actions.
struct Buffer {
  std::int32_t begin = 0;
  std::int32_t end = 0;
  Bytes bytes = 0;
  Bytes alignment = 1;              ///< of its offset, beside that of the packing; a power of two
  std::optional<Bytes> fixed = {};  ///< the offset that it must have
};

/// Whether a buffer is in any other's way.
constexpr bool takes_room(const Buffer& buffer) {
  return buffer.bytes > 0 && buffer.begin < buffer.end;
}

/// Offsets, one per buffer, and the height that they need.
struct Packing {
  std::vector<Bytes> offsets;
  Bytes height = 0;
};

/// No packing can be lower: the largest sum of (aligned) bytes alive at one time, or the highest
/// end of a fixed one.
Bytes packing_lower_bound(const std::vector<Buffer>& buffers, Bytes alignment = kArenaAlignment);

/// What pack() may spend, in comparisons of two buffers and looks at one: a deterministic stand-in
/// for time, a second or two.
inline constexpr std::int64_t kPackingWork = 600'000'000;
/// What a unit of that counts for in a time limit.
inline constexpr double kPackingNanoseconds = 5;

/// What a packing is asked for.
struct PackingGoal {
  Bytes alignment = kArenaAlignment;
  /// To get within: no lower than is quickly found. Empty: as low as possible.
  std::optional<Bytes> capacity = {};
  std::int64_t work = kPackingWork;  ///< at most
};

/// Packs so that no two buffers that are alive together overlap (dynamic storage allocation), as
/// solve_packing() does, which also says what is proven: heuristics, then an exact search within
/// the work. Deterministic. Throws InputError when fixed offsets contradict each other.
Packing pack(const std::vector<Buffer>& buffers, Bytes alignment = kArenaAlignment,
             std::int64_t work = kPackingWork);

}  // namespace lowtide::packing
