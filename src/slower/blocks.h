#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "base/bytes.h"

namespace lowtide::slower {

/// Bytes from `begin` to before `end`.
struct Range {
  Bytes begin = 0;
  Bytes end = 0;

  Bytes bytes() const { return end - begin; }
  /// An empty range overlaps none.
  bool overlaps(Range other) const {
    return std::max(begin, other.begin) < std::min(end, other.end);
  }
  bool operator==(const Range&) const = default;
};

/// What one request writes. It has one checksum, so it is read as a whole too.
struct Block {
  Range range;
  /// Whether another block has bytes in the unit of alignment where this one begins or ends.
  bool shares_front = false;
  bool shares_back = false;
  std::uint64_t checksum = 0;
  bool is_written = false;  ///< set when its write has ended well
};

using BlockList = std::vector<std::shared_ptr<Block>>;

/// Which blocks lie where, as all copies asked for so far leave them.
class Blocks {
 public:
  /// Blocks have `largest` bytes at most, counted from a multiple of `alignment`, which is a power
  /// of two and divides `largest`.
  Blocks(Bytes largest, Bytes alignment) : largest_(largest), alignment_(alignment) {}

  /// Forgets what overlaps the range and gives it new blocks.
  BlockList replace(Range range);
  /// The blocks that cover the range, in order; none if a part of it has no block.
  BlockList covering(Range range) const;
  /// The range, widened to multiples of the alignment.
  Range aligned(Range range) const;

 private:
  void forget(Range range);
  bool is_free(Range range) const;

  const Bytes largest_;
  const Bytes alignment_;
  std::map<Bytes, std::shared_ptr<Block>> blocks_;  // by their end; none overlap
};

}  // namespace lowtide::slower
