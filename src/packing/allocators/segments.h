#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <utility>

#include "packing/allocators/requests.h"

namespace lowtide::packing::allocators {

/// Memory taken from the system in segments, each for one purpose, and never released. Free blocks
/// are split, and merged with free neighbours in the same segment.
class Segments {
 public:
  struct Need {
    Bytes bytes = 0;        ///< rounded
    int purpose = 0;        ///< only segments of this purpose serve it
    Bytes new_segment = 0;  ///< bytes to take from the system when no free block fits
    Bytes least_rest = 0;   ///< a smaller rest is not split off
  };

  /// Takes the smallest free block that is large enough; of equal ones the lowest.
  Block take(const Need& need);
  void give(Block block);
  Bytes height() const { return top_; }

 private:
  struct Piece {
    Bytes bytes;
    std::int32_t segment;
    int purpose;
    bool is_free;
  };
  using Pieces = std::map<Bytes, Piece>;  // by offset: all memory
  struct BySize {
    int purpose;
    Bytes bytes, offset;
    auto operator<=>(const BySize&) const = default;
  };

  static BySize key(const Pieces::value_type& at) {
    return {at.second.purpose, at.second.bytes, at.first};
  }
  Pieces::iterator find(const Need& need);
  Pieces::iterator grow(const Need& need);
  /// Merges two free pieces of one segment. Returns the merged piece, or `left`.
  Pieces::iterator merge(Pieces::iterator left, Pieces::iterator right);

  Pieces pieces_;
  std::set<BySize> free_;
  std::int32_t segments_ = 0;
  Bytes top_ = 0;
};

}  // namespace lowtide::packing::allocators
