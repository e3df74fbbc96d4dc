#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <set>
#include <utility>

#include "base/bytes.h"

namespace lowtide::packing {

/// The choice among free ranges that are large enough: the lowest; the smallest, and of these the
/// lowest; or the first at or after the end of the last taken range, else the lowest.
enum class Fit : std::uint8_t { first, best, next };

/// An allocator's memory: holes below a top that grows when no hole fits. A larger hole is split; a
/// released range merges with neighbouring holes. A range that raises the top begins in the hole
/// that ends at the top, if there is one.
class Holes {
 public:
  /// Takes `bytes` > 0; returns the offset. O(log holes) for best fit, and for first fit if few
  /// holes have sizes within a factor of two of `bytes`; O(holes) for next fit.
  Bytes take(Bytes bytes, Fit fit);
  void give(Bytes offset, Bytes bytes);

  Bytes top() const { return top_; }  ///< the highest end of all ranges taken so far
  Bytes end() const;                  ///< the highest end of ranges in use
  Bytes largest() const;              ///< bytes of the largest hole; 0 when there is none

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
