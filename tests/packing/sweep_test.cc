#include "packing/sweep.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <tuple>
#include <vector>

namespace lowtide::packing {
namespace {

/// First fit computed directly: each at the lowest address without an overlap with a live buffer.
std::vector<Bytes> first_fit(const std::vector<Buffer>& buffers, Order order) {
  std::ranges::sort(order, [&](std::int32_t a, std::int32_t b) {
    return std::tuple(buffers[a].begin, -buffers[a].bytes, a) <
           std::tuple(buffers[b].begin, -buffers[b].bytes, b);
  });
  std::vector<Bytes> offsets(buffers.size());
  Order placed;
  for (std::int32_t i : order) {
    std::erase_if(placed, [&](std::int32_t j) { return buffers[j].end <= buffers[i].begin; });
    std::ranges::sort(placed, {}, [&](std::int32_t j) { return offsets[j]; });
    for (std::int32_t j : placed) {
      if (offsets[j] - offsets[i] >= buffers[i].bytes) break;
      offsets[i] = offsets[j] + buffers[j].bytes;
    }
    placed.push_back(i);
  }
  return offsets;
}

TEST(Sweep, TakesTheLowestHoleThatIsLargeEnough) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    std::mt19937_64 random(seed);
    std::vector<Buffer> buffers;
    for (int i = 0; i < 200; ++i) {
      const auto begin = static_cast<std::int32_t>(random() % 100);
      const auto length = static_cast<std::int32_t>(1 + random() % 30);
      buffers.push_back({begin, begin + length, static_cast<Bytes>(1 + random() % 5000)});
    }
    Order order(buffers.size());
    std::iota(order.begin(), order.end(), 0);
    EXPECT_EQ(sweep(buffers, order, Fit::first).offsets, first_fit(buffers, order));
  }
}

}  // namespace
}  // namespace lowtide::packing
