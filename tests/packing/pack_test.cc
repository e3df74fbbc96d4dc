#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "packing/packing.h"
#include "packing/packing_check.h"

namespace lowtide::packing {
namespace {

using ::testing::ElementsAre;
using testing::is_packing;
using testing::optimal_height;
using testing::random_buffers;

/// The largest sum alive at any time, computed directly.
Bytes naive_lower_bound(const std::vector<Buffer>& buffers, Bytes alignment) {
  Bytes most = 0;
  for (const Buffer& at : buffers) {
    Bytes sum = 0;
    for (const Buffer& buffer : buffers) {
      if (buffer.begin <= at.begin && at.begin < buffer.end) {
        sum += align_up(buffer.bytes, alignment);
      }
    }
    most = std::max(most, sum);
  }
  return most;
}

TEST(Pack, NothingTakesNothing) {
  EXPECT_EQ(pack({}).height, 0);
  const Packing packing = pack({{0, 5, 0}, {3, 3, 100}});
  EXPECT_EQ(packing.height, 0);
  EXPECT_THAT(packing.offsets, ElementsAre(0, 0));
}

TEST(Pack, WhatIsNotAliveTogetherSharesBytes) {
  EXPECT_EQ(pack({{0, 2, 100}, {2, 4, 100}}, 1).height, 100);
  EXPECT_EQ(pack({{0, 3, 100}, {2, 4, 100}}, 1).height, 200);
}

TEST(Pack, AlignsEveryOffset) {
  const std::vector<Buffer> buffers{{0, 2, 65}, {0, 2, 1}, {1, 3, 64}};
  const Packing packing = pack(buffers);
  EXPECT_TRUE(is_packing(buffers, packing, kArenaAlignment));
  EXPECT_EQ(packing.height, 128 + 64 + 64);
}

TEST(Pack, FindsRoomThatOneAllocationOrderWastes) {
  // In order of time, the third buffer finds two holes of 10 but none of 20.
  const std::vector<Buffer> buffers{{0, 2, 10}, {0, 4, 10}, {0, 2, 10}, {2, 4, 20}};
  EXPECT_EQ(pack(buffers, 1).height, 30);
}

TEST(Pack, HoldsSizesBeyond32Bits) {
  constexpr Bytes kHuge = 1LL << 40;
  const std::vector<Buffer> buffers{{0, 2, kHuge}, {1, 3, kHuge}, {2, 4, kHuge}};
  EXPECT_EQ(pack(buffers).height, 2 * kHuge);
}

TEST(PackProperty, IsOptimalForSevenBuffers) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    std::vector<Buffer> buffers = random_buffers(seed, 7, 8, 12);
    EXPECT_EQ(pack(buffers, 1).height, optimal_height(buffers));
  }
}

TEST(PackProperty, NothingOverlapsAndTheBoundHolds) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    const auto buffers = random_buffers(seed, 1 + static_cast<int>(seed) * 4, 60, 5000);
    for (Bytes alignment : {1, 64, 256}) {
      const Packing packing = pack(buffers, alignment);
      EXPECT_TRUE(is_packing(buffers, packing, alignment));
      EXPECT_EQ(packing_lower_bound(buffers, alignment), naive_lower_bound(buffers, alignment));
      EXPECT_GE(packing.height, packing_lower_bound(buffers, alignment));
      EXPECT_LE(packing.height, 1.25 * packing_lower_bound(buffers, alignment));
    }
  }
}

TEST(PackProperty, TheSameBuffersGetTheSameAddresses) {
  const auto buffers = random_buffers(1, 400, 200, 5000);
  EXPECT_EQ(pack(buffers).offsets, pack(buffers).offsets);
}

TEST(PackProperty, ManyBuffersStayCloseToTheBound) {
  const auto buffers = random_buffers(2, 20'000, 20'000, 1 << 20);
  const Packing packing = pack(buffers);
  EXPECT_LE(packing.height, 1.1 * packing_lower_bound(buffers));
  // Checking every pair would be slow: checks some buffers against all.
  std::vector<Buffer> some;
  Packing part{{}, packing.height};
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    if (i % 10 != 0) continue;
    some.push_back(buffers[i]);
    part.offsets.push_back(packing.offsets[i]);
  }
  EXPECT_TRUE(is_packing(some, part, kArenaAlignment));
}

/// Forward activations that die in reverse order, with scratch memory in between: the shape of
/// every training step.
TEST(PackProperty, ATrainingStepIsPackedWithoutWaste) {
  std::mt19937_64 random(3);
  constexpr int kLayers = 300;
  std::vector<Buffer> buffers;
  for (int i = 0; i < kLayers; ++i) {
    const auto bytes = static_cast<Bytes>(64 * (1 + random() % 5000));
    buffers.push_back({i, 2 * kLayers - i, bytes});
    buffers.push_back({i, i + 1, bytes});
    buffers.push_back({2 * kLayers - i - 1, 2 * kLayers - i + 1, bytes});
  }
  EXPECT_LE(pack(buffers).height, 1.01 * packing_lower_bound(buffers));
}

}  // namespace
}  // namespace lowtide::packing
