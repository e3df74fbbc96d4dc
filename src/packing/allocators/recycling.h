#pragma once

#include <map>
#include <vector>

#include "packing/allocators/requests.h"

namespace lowtide::packing::allocators {

/// Rounds sizes to those of a list. A free block serves only its own size; the block released last
/// is used first. Blocks are never split or merged.
class Recycling final : public Allocator {
 public:
  /// `rounded` maps a size to a size of the list.
  explicit Recycling(Bytes (*rounded)(Bytes bytes, Bytes unit), Bytes unit)
      : rounded_(rounded), unit_(unit) {}

  Block take(Bytes bytes) override {
    bytes = rounded_(bytes, unit_);
    std::vector<Bytes>& free = free_[bytes];
    if (free.empty()) {
      const Block block{top_, bytes};
      top_ += bytes;
      return block;
    }
    const Block block{free.back(), bytes};
    free.pop_back();
    return block;
  }
  void give(Block block) override { free_[block.bytes].push_back(block.offset); }
  Bytes height() const override { return top_; }

 private:
  Bytes (*rounded_)(Bytes bytes, Bytes unit);
  Bytes unit_;
  std::map<Bytes, std::vector<Bytes>> free_;  // offsets by size
  Bytes top_ = 0;
};

}  // namespace lowtide::packing::allocators
