#pragma once

#include <cstdint>
#include <vector>

#include "packing/packing.h"

namespace lowtide::packing {

/// A buffer to place. Its life is the range of cliques [first, last], both included.
struct Item {
  static constexpr Bytes kFree = -1;
  std::int32_t first = 0, last = 0;
  Bytes bytes = 0;
  Bytes alignment = 1;
  Bytes fixed = kFree;  ///< the offset that it must have
};

/// What there is to place, with time reduced to what matters: the maximal sets of buffers that are
/// alive together ("cliques"), in order of time. Two buffers are alive together at some time if and
/// only if their ranges of cliques meet.
///
///   a ====              cliques: 0 = {a, b}, 1 = {b, c, d}
///   b   ==========      a: [0, 0]   b: [0, 1]   c, d: [1, 1]
///   c        ====
///   d         =====
struct Instance {
  std::vector<Item> items;
  std::vector<std::int32_t> buffers;  ///< per item: which buffer it is
  std::int32_t cliques = 0;
  Bytes unit = 1;  ///< divides every size, alignment and fixed offset, and so every height
};

/// With sizes that are whole units of the alignment.
std::vector<Buffer> rounded(std::vector<Buffer> buffers, Bytes alignment);

/// A buffer without bytes or life is left out.
Instance instance_of(const std::vector<Buffer>& buffers);

/// Per item what there is per buffer.
std::vector<Bytes> of_items(const Instance& instance, const std::vector<Bytes>& of_buffers);
/// The other way round; a buffer that is no item keeps what it has.
void set_of_buffers(const Instance& instance, const std::vector<Bytes>& of_items,
                    std::vector<Bytes>& of_buffers);

/// How many pairs of an item and a clique of its life there are.
std::int64_t lives(const Instance& instance);

/// Per item: the largest sum of bytes of any clique of its life. O(items + cliques log cliques).
std::vector<Bytes> loads(const Instance& instance);

/// No packing is lower: the largest sum of bytes of a clique, or the highest fixed top.
Bytes lower_bound(const Instance& instance);

}  // namespace lowtide::packing
