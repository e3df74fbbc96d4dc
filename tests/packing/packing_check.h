#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include "packing/instance.h"

namespace lowtide::testing {

inline bool alive_together(const packing::Buffer& a, const packing::Buffer& b) {
  return a.bytes > 0 && b.bytes > 0 && a.begin < a.end && b.begin < b.end && a.begin < b.end &&
         b.begin < a.end;
}

/// Checks every pair of buffers directly, and every buffer's own alignment and fixed offset.
inline ::testing::AssertionResult is_packing(const std::vector<packing::Buffer>& buffers,
                                             const packing::Packing& packing, Bytes alignment) {
  if (packing.offsets.size() != buffers.size()) {
    return ::testing::AssertionFailure() << packing.offsets.size() << " offsets";
  }
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    const Bytes begin = packing.offsets[i], end = begin + buffers[i].bytes;
    if (begin < 0 || begin % alignment != 0 || end > packing.height) {
      return ::testing::AssertionFailure() << "buffer " << i << " at [" << begin << ", " << end
                                           << ") of " << packing.height;
    }
    if (packing::takes_room(buffers[i]) &&
        (begin % buffers[i].alignment != 0 || begin != buffers[i].fixed.value_or(begin))) {
      return ::testing::AssertionFailure() << "buffer " << i << " may not lie at " << begin;
    }
    for (std::size_t j = 0; j < i; ++j) {
      const Bytes other = packing.offsets[j];
      if (alive_together(buffers[i], buffers[j]) && begin < other + buffers[j].bytes &&
          other < end) {
        return ::testing::AssertionFailure() << "buffers " << i << " and " << j << " overlap";
      }
    }
  }
  return ::testing::AssertionSuccess();
}

/// A packing from offsets per item, all within the height.
inline packing::Packing packing_of(const packing::Instance& instance,
                                   const std::vector<packing::Buffer>& buffers,
                                   const std::vector<Bytes>& offsets, Bytes height) {
  packing::Packing packing{std::vector<Bytes>(buffers.size()), height};
  packing::set_of_buffers(instance, offsets, packing.offsets);
  return packing;
}

/// A poor packing: one item on top of the other, in order, each at its alignment. Fixed items lie
/// at the bottom.
inline std::vector<Bytes> stacked(const packing::Instance& instance) {
  std::vector<Bytes> offsets;
  Bytes top = 0;
  for (const packing::Item& item : instance.items) {
    if (item.fixed != packing::Item::kFree) top = std::max(top, item.fixed + item.bytes);
  }
  for (const packing::Item& item : instance.items) {
    const bool is_fixed = item.fixed != packing::Item::kFree;
    offsets.push_back(is_fixed ? item.fixed : align_up(top, item.alignment));
    if (!is_fixed) top = offsets.back() + item.bytes;
  }
  return offsets;
}

inline std::vector<packing::Buffer> random_buffers(std::uint64_t seed, int count, int times,
                                                   Bytes most) {
  std::mt19937_64 random(seed);
  const auto below = [&](std::uint64_t n) { return static_cast<std::int64_t>(random() % n); };
  std::vector<packing::Buffer> buffers;
  for (int i = 0; i < count; ++i) {
    const auto begin = static_cast<std::int32_t>(below(times));
    const auto length = static_cast<std::int32_t>(1 + below(below(3) == 0 ? times : times / 8 + 2));
    buffers.push_back({begin, begin + length, below(20) == 0 ? 0 : 1 + below(most)});
  }
  return buffers;
}

/// Whether buffers can be packed within the capacity, the first ones at the given offsets: tries
/// every offset of every buffer.
inline bool can_pack(const std::vector<packing::Buffer>& buffers, Bytes capacity,
                     std::vector<Bytes>& offsets) {
  const std::size_t next = offsets.size();
  if (next == buffers.size()) return true;
  const packing::Buffer& buffer = buffers[next];
  for (Bytes at = 0; at + buffer.bytes <= capacity; ++at) {
    if (at % buffer.alignment != 0 || at != buffer.fixed.value_or(at)) continue;
    bool free = true;
    for (std::size_t j = 0; j < next && free; ++j) {
      free = !alive_together(buffer, buffers[j]) ||
             offsets[j] + buffers[j].bytes <= at || at + buffer.bytes <= offsets[j];
    }
    if (!free) continue;
    offsets.push_back(at);
    if (can_pack(buffers, capacity, offsets)) return true;
    offsets.pop_back();
  }
  return false;
}

inline bool can_pack(std::vector<packing::Buffer> buffers, Bytes capacity) {
  std::ranges::sort(buffers, {},
                    &packing::Buffer::begin);  // the sooner a conflict shows, the better
  std::vector<Bytes> offsets;
  return can_pack(buffers, capacity, offsets);
}

inline Bytes optimal_height(const std::vector<packing::Buffer>& buffers) {
  Bytes height = packing::packing_lower_bound(buffers, 1);
  while (!can_pack(buffers, height)) ++height;
  return height;
}

/// Up to 20 buffers with the same sum of bytes at every time. Some need more than that sum; hardly
/// any small random buffers with free space do.
inline std::vector<packing::Buffer> buffers_without_room(std::uint64_t seed) {
  constexpr std::int32_t kTimes = 14;
  std::mt19937_64 random(seed);
  std::vector<packing::Buffer> buffers;
  for (int i = 0; i < 7; ++i) {
    const auto begin = static_cast<std::int32_t>(random() % 10);
    const auto length = static_cast<std::int32_t>(1 + random() % 5);
    buffers.push_back({begin, begin + length, static_cast<Bytes>(1 + random() % 3)});
  }
  const Bytes full = packing::packing_lower_bound(buffers, 1);
  std::vector<Bytes> room(kTimes, full);
  for (const packing::Buffer& buffer : buffers) {
    for (std::int32_t t = buffer.begin; t < buffer.end; ++t) room[t] -= buffer.bytes;
  }
  for (std::int32_t begin = 0, end = 0; begin < kTimes; begin = end) {
    while (end < kTimes && room[end] == room[begin]) ++end;
    buffers.push_back({begin, end, room[begin]});
  }
  return buffers;
}

}  // namespace lowtide::testing
