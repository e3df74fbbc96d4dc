#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <set>
#include <utility>

#include "base/bytes.h"

namespace lowtide::packing {

/// Which of the free ranges that are large enough is taken: the lowest, the tightest (the lowest of
/// these), or the first at or behind the end of what was taken last, then the lowest.
enum class Fit : std::uint8_t { first, best, next };

/// Memory as an allocator sees it: holes below a top that grows when no hole fits. A hole is split
/// when it is larger than what is taken, and merged with its neighbours when something is given
/// back; what the top grows by begins in the hole that ends there.
class Holes {
 public:
  /// The offset of `bytes` > 0. O(log holes) for best fit; for first fit so where few holes have
  /// sizes within a factor of two of what is taken; O(holes) for next fit.
  Bytes take(Bytes bytes, Fit fit);
  void give(Bytes offset, Bytes bytes);

  Bytes top() const { return top_; }  ///< the highest end of anything taken so far
  Bytes end() const;                  ///< the highest end of anything that was not given back

 private:
  using ByOffset = std::map<Bytes, Bytes>;  // offset, size

  ByOffset::iterator find(Bytes bytes, Fit fit);
  ByOffset::iterator best(Bytes bytes);
  ByOffset::iterator first(Bytes bytes);
  ByOffset::iterator next(Bytes bytes);
  Bytes grow(Bytes bytes);
  void insert(Bytes offset, Bytes bytes);
  void erase(ByOffset::iterator hole);

  ByOffset by_offset_;
  std::set<std::pair<Bytes, Bytes>> by_size_;  // size, offset
  std::array<ByOffset, 65> by_class_;          // per class of sizes
  Bytes top_ = 0;
  Bytes taken_last_ = 0;  // its end
};

}  // namespace lowtide::packing
