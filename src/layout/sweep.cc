#include "layout/sweep.h"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <map>
#include <set>
#include <tuple>
#include <utility>

namespace lowtide {
namespace {

/// Memory as an allocator sees it: holes below a top that grows when no hole fits.
class Holes {
 public:
  Bytes take(Bytes bytes, Fit fit) {
    const auto hole = fit == Fit::best ? best(bytes) : first(bytes);
    if (hole == by_offset_.end()) return grow(bytes);
    const auto [offset, size] = *hole;
    erase(hole);
    if (size > bytes) insert(offset + bytes, size - bytes);
    return offset;
  }

  void give(Bytes offset, Bytes bytes) {
    const auto next = by_offset_.lower_bound(offset);
    if (next != by_offset_.end() && next->first == offset + bytes) {
      bytes += next->second;
      erase(next);
    }
    const auto after = by_offset_.lower_bound(offset);
    if (after != by_offset_.begin()) {
      const auto before = std::prev(after);
      if (before->first + before->second == offset) {
        offset = before->first;
        bytes += before->second;
        erase(before);
      }
    }
    insert(offset, bytes);
  }

  Bytes top() const { return top_; }

 private:
  using ByOffset = std::map<Bytes, Bytes>;  // offset, size

  ByOffset::iterator best(Bytes bytes) {
    const auto found = by_size_.lower_bound({bytes, 0});
    return found == by_size_.end() ? by_offset_.end() : by_offset_.find(found->second);
  }

  /// Holes of a larger class are all large enough: of those only the lowest may be it. Of its own
  /// class, the lowest that is large enough.
  ByOffset::iterator first(Bytes bytes) {
    const std::size_t own = class_of(bytes);
    Bytes lowest = std::numeric_limits<Bytes>::max();
    for (std::size_t c = own + 1; c < by_class_.size(); ++c) {
      if (!by_class_[c].empty()) lowest = std::min(lowest, by_class_[c].begin()->first);
    }
    for (const auto& [offset, size] : by_class_[own]) {
      if (offset >= lowest) break;
      if (size >= bytes) lowest = offset;
    }
    return by_offset_.find(lowest);
  }

  /// From a power of two to below the next.
  static std::size_t class_of(Bytes bytes) {
    return static_cast<std::size_t>(std::bit_width(static_cast<std::uint64_t>(bytes)));
  }

  Bytes grow(Bytes bytes) {
    Bytes offset = top_;
    if (!by_offset_.empty()) {
      const auto last = std::prev(by_offset_.end());
      if (last->first + last->second == top_) {
        offset = last->first;
        erase(last);
      }
    }
    top_ = offset + bytes;
    return offset;
  }

  void insert(Bytes offset, Bytes bytes) {
    by_offset_.emplace(offset, bytes);
    by_size_.emplace(bytes, offset);
    by_class_[class_of(bytes)].emplace(offset, bytes);
  }

  void erase(ByOffset::iterator hole) {
    by_size_.erase({hole->second, hole->first});
    by_class_[class_of(hole->second)].erase(hole->first);
    by_offset_.erase(hole);
  }

  ByOffset by_offset_;
  std::set<std::pair<Bytes, Bytes>> by_size_;  // size, offset
  std::array<ByOffset, 65> by_class_;          // per class of sizes
  Bytes top_ = 0;
};

}  // namespace

Packing sweep(const std::vector<Buffer>& buffers, Order by_begin, Fit fit) {
  Order by_end = by_begin;
  std::ranges::sort(by_begin, [&](std::int32_t a, std::int32_t b) {
    return std::tuple(buffers[a].begin, -buffers[a].bytes, a) <
           std::tuple(buffers[b].begin, -buffers[b].bytes, b);
  });
  std::ranges::sort(by_end, [&](std::int32_t a, std::int32_t b) {
    return std::pair(buffers[a].end, a) < std::pair(buffers[b].end, b);
  });
  Packing packing{std::vector<Bytes>(buffers.size()), 0};
  Holes holes;
  auto ending = by_end.begin();
  for (std::int32_t i : by_begin) {
    for (; buffers[*ending].end <= buffers[i].begin; ++ending) {
      holes.give(packing.offsets[*ending], buffers[*ending].bytes);
    }
    packing.offsets[i] = holes.take(buffers[i].bytes, fit);
  }
  packing.height = holes.top();
  return packing;
}

}  // namespace lowtide
