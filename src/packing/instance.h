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

/// The items to place. Time is reduced to the maximal sets of buffers that are alive together
/// ("cliques"), in order of time. Two buffers are alive together at some time if and only if their
/// ranges of cliques intersect.
///
///   a ====              cliques: 0 = {a, b}, 1 = {b, c, d}
///   b   ==========      a: [0, 0]   b: [0, 1]   c, d: [1, 1]
///   c        ====
///   d         =====
struct Instance {
  std::vector<Item> items;
  std::vector<std::int32_t> buffers;  ///< per item: the index of its buffer
  std::int32_t cliques = 0;
  Bytes unit = 1;  ///< divides every size, alignment, fixed offset and height
};

/// The same buffers with sizes rounded up to multiples of the alignment.
std::vector<Buffer> rounded(std::vector<Buffer> buffers, Bytes alignment);

/// Leaves out buffers without bytes or life.
Instance instance_of(const std::vector<Buffer>& buffers);

/// Converts a list per buffer to a list per item.
std::vector<Bytes> of_items(const Instance& instance, const std::vector<Bytes>& of_buffers);
/// The reverse; entries of buffers without an item stay as they are.
void set_of_buffers(const Instance& instance, const std::vector<Bytes>& of_items,
                    std::vector<Bytes>& of_buffers);

/// The number of pairs of an item and a clique of its life.
std::int64_t lives(const Instance& instance);

/// Per item: the largest sum of bytes of any clique of its life. O(items + cliques log cliques).
std::vector<Bytes> loads(const Instance& instance);

/// A lower bound on the height: the largest sum of bytes of a clique, or the highest fixed top.
Bytes lower_bound(const Instance& instance);

}  // namespace lowtide::packing
