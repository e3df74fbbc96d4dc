#include <algorithm>
#include <bit>
#include <map>
#include <set>

#include "packing/allocators/requests.h"

namespace lowtide::packing::allocators {
namespace {

/// Blocks of 2^k bytes at multiples of 2^k. Halves of a block are buddies: a block is split until
/// it is just large enough, and two free buddies merge again.
class Buddies final : public Allocator {
 public:
  explicit Buddies(Bytes least) : least_(least) {}

  Block take(Bytes bytes) override {
    const Bytes size = std::max(ceil(bytes), least_);
    auto list = free_.lower_bound(size);
    for (; list == free_.end(); list = free_.lower_bound(size)) grow(size);
    Block block{*list->second.begin(), list->first};
    remove(block);
    while (block.bytes > size) {
      block.bytes /= 2;
      insert({block.offset + block.bytes, block.bytes});
    }
    return block;
  }

  void give(Block block) override {
    for (;;) {
      const Bytes buddy = block.offset ^ block.bytes;
      const auto list = free_.find(block.bytes);
      if (list == free_.end() || !list->second.contains(buddy)) break;
      remove({buddy, block.bytes});
      block = {std::min(block.offset, buddy), 2 * block.bytes};
    }
    insert(block);
  }

  Bytes height() const override { return top_; }

 private:
  static Bytes ceil(Bytes bytes) {
    return static_cast<Bytes>(std::bit_ceil(static_cast<std::uint64_t>(bytes)));
  }

  /// Adds the largest block that may begin at the top, at most of this size.
  void grow(Bytes size) {
    const Bytes largest = top_ == 0 ? size : top_ & -top_;
    const Block block{top_, std::min(largest, size)};
    top_ += block.bytes;
    give(block);
  }

  void insert(Block block) { free_[block.bytes].insert(block.offset); }

  void remove(Block block) {
    const auto list = free_.find(block.bytes);
    list->second.erase(block.offset);
    if (list->second.empty()) free_.erase(list);
  }

  std::map<Bytes, std::set<Bytes>> free_;  // offsets by size
  Bytes least_;
  Bytes top_ = 0;
};

}  // namespace

PoolStrategy buddy_pool() {
  return {
      .name = "buddy",
      .summary = "powers of two, split into halves that merge again",
      .source = "Knowlton, A fast storage allocator, CACM 8(10), 1965",
      .serve =
          [](const std::vector<Buffer>& buffers, Bytes unit) {
            Buddies buddies(unit);
            return serve(buffers, buddies);
          },
  };
}

}  // namespace lowtide::packing::allocators
