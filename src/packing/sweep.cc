#include "packing/sweep.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace lowtide::packing {

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

}  // namespace lowtide::packing
