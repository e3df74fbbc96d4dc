// Every pool: invariants of all pools on random steps, and small examples computed by hand.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <string>

#include "packing/allocators/requests.h"
#include "packing/packing_check.h"
#include "packing/pooled.h"

namespace lowtide::packing {
namespace {

using ::testing::ElementsAre;
using testing::pooled;
using testing::then_ask;

constexpr Bytes kMiB = Bytes{1} << 20;

/// The buffers as large as the blocks that they got.
std::vector<Buffer> in_blocks(std::vector<Buffer> buffers, const allocators::Pooled& result) {
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    EXPECT_GE(result.blocks[i], takes_room(buffers[i]) ? buffers[i].bytes : 0);
    buffers[i].bytes = result.blocks[i];
  }
  return buffers;
}

class EveryPool : public ::testing::TestWithParam<allocators::PoolStrategy> {};

TEST_P(EveryPool, GivesBlocksThatDoNotOverlap) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    const Bytes most = seed % 2 == 0 ? 5000 : 40 * kMiB;
    const std::vector<Buffer> buffers = testing::random_buffers(seed, 150, 60, most);
    const allocators::Pooled result = GetParam().serve(buffers, seed % 3 == 0 ? 64 : 1);
    const std::vector<Buffer> blocks = in_blocks(buffers, result);
    EXPECT_TRUE(testing::is_packing(blocks, {result.offsets, result.height}, 1));
    EXPECT_GE(result.height, allocators::most_alive(blocks));
    EXPECT_GE(allocators::most_alive(blocks), allocators::most_alive(buffers));
  }
}

TEST_P(EveryPool, GivesTheSameBlocksAgain) {
  const std::vector<Buffer> buffers = testing::random_buffers(7, 300, 90, 9 * kMiB);
  const allocators::Pooled first = GetParam().serve(buffers, 64),
                           second = GetParam().serve(buffers, 64);
  EXPECT_EQ(first.offsets, second.offsets);
  EXPECT_EQ(first.height, second.height);
}

TEST_P(EveryPool, ServesWhatComesBackWithWhatIsFree) {
  std::vector<Buffer> buffers;
  for (std::int32_t time = 0; time < 20; ++time) buffers.push_back({time, time + 1, 3 * kMiB});
  EXPECT_EQ(GetParam().serve(buffers, 64).height, GetParam().serve({buffers[0]}, 64).height);
}

TEST_P(EveryPool, TakesNothingForNothing) {
  EXPECT_EQ(GetParam().serve({}, 64).height, 0);
  EXPECT_EQ(GetParam().serve({{0, 5, 0}, {3, 3, 100}}, 64).height, 0);
}

TEST_P(EveryPool, SaysWhatItIs) {
  EXPECT_FALSE(GetParam().summary.empty());
  EXPECT_FALSE(GetParam().source.empty());
}

INSTANTIATE_TEST_SUITE_P(Registry, EveryPool, ::testing::ValuesIn(allocators::pool_strategies()),
                         [](const auto& info) {
                           std::string name(info.param.name);
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

// ---- By hand ------------------------------------------------------------------------------------

TEST(Buddy, BlocksArePowersOfTwoAtTheirMultiples) {
  const std::vector<Buffer> buffers = testing::random_buffers(3, 200, 50, 5000);
  const allocators::Pooled result = pooled("buddy", buffers, 64);
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    if (!takes_room(buffers[i])) continue;
    EXPECT_TRUE(std::has_single_bit(static_cast<std::uint64_t>(result.blocks[i])));
    EXPECT_GE(result.blocks[i], 64);
    EXPECT_EQ(result.offsets[i] % result.blocks[i], 0);
  }
}

TEST(Buddy, SplitsAndMergesHalves) {
  // 100 takes 128; 30 takes 32 of the next 128, 60 takes 64 of it; all are free again for 256.
  const std::vector<Buffer> buffers{{0, 3, 100}, {0, 3, 30}, {1, 3, 60}, {2, 3, 128}, {3, 4, 256}};
  const allocators::Pooled result = pooled("buddy", buffers);
  EXPECT_THAT(result.blocks, ElementsAre(128, 32, 64, 128, 256));
  EXPECT_THAT(result.offsets, ElementsAre(0, 128, 192, 256, 0));
  EXPECT_EQ(result.height, 384);
}

TEST(Buddy, IsWholeAgainWhenAllIsFree) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    const std::vector<Buffer> buffers = testing::random_buffers(seed, 100, 40, 1000);
    const Bytes height = pooled("buddy", buffers).height;
    const auto largest = static_cast<Bytes>(std::bit_floor(static_cast<std::uint64_t>(height)));
    const allocators::Pooled again = pooled("buddy", then_ask(buffers, largest));
    EXPECT_EQ(again.offsets.back(), 0) << seed;
    EXPECT_EQ(again.height, height) << seed;
  }
}

TEST(Caching, RoundsAndSplitsAsItsRulesSay) {
  // 100 bytes and 1 MiB share a small segment; 1 MiB and a byte begin a segment of 20 MiB, which
  // has room for 15 MiB too; 30 MiB and a byte get a segment in whole 2 MiB, and keep its rest.
  const std::vector<Buffer> buffers{
      {0, 9, 100}, {0, 9, kMiB}, {0, 9, kMiB + 1}, {0, 9, 15 * kMiB}, {0, 9, 31 * kMiB + 1}};
  const allocators::Pooled result = pooled("caching", buffers);
  EXPECT_THAT(result.blocks,
              ElementsAre(512, kMiB, kMiB + 512, 15 * kMiB, 32 * kMiB));
  EXPECT_THAT(result.offsets,
              ElementsAre(0, 512, 2 * kMiB, 3 * kMiB + 512, 22 * kMiB));
  EXPECT_EQ(result.height, 54 * kMiB);
}

TEST(Caching, NeverMergesSegments) {
  // Two of 12 MiB are free next to each other, but 24 MiB need a third segment.
  const std::vector<Buffer> buffers{{0, 1, 12 * kMiB}, {0, 1, 12 * kMiB}, {1, 2, 24 * kMiB}};
  EXPECT_EQ(pooled("caching", buffers).height, 48 * kMiB);
  EXPECT_EQ(pooled("best-fit", buffers).height, 24 * kMiB);
  // Parts of one segment merge.
  const std::vector<Buffer> parts{{0, 1, 8 * kMiB}, {0, 1, 8 * kMiB}, {1, 2, 19 * kMiB}};
  EXPECT_EQ(pooled("caching", parts).height, 20 * kMiB);
}

TEST(DoublingRegions, AreTwiceAsLargeEachTime) {
  std::vector<Buffer> buffers;
  for (int i = 0; i < 8; ++i) buffers.push_back({0, 1, 2 * kMiB});  // regions of 2, 4, 8 and 16 MiB
  EXPECT_EQ(pooled("doubling-regions", buffers).height, 30 * kMiB);
  // 5 MiB skip to 8; 3 MiB get all the rest, since the remainder is smaller than the request.
  const allocators::Pooled skips = pooled("doubling-regions", {{0, 9, 5 * kMiB}, {0, 9, 2 * kMiB}});
  EXPECT_THAT(skips.blocks, ElementsAre(8 * kMiB, 2 * kMiB));
  EXPECT_EQ(skips.height, 24 * kMiB);
}

TEST(Recycling, RoundsToItsSizes) {
  std::vector<Buffer> buffers;
  for (Bytes bytes : {1, 17, 128, 129, 160, 161, 257, 321, 1000}) buffers.push_back({0, 1, bytes});
  EXPECT_THAT(pooled("size-classes", buffers).blocks,
              ElementsAre(16, 32, 128, 160, 160, 192, 320, 384, 1024));
  EXPECT_THAT(pooled("powers-of-two", buffers).blocks,
              ElementsAre(1, 32, 128, 256, 256, 256, 512, 512, 1024));
  EXPECT_THAT(pooled("exact-sizes", buffers, 64).blocks,
              ElementsAre(64, 64, 128, 192, 192, 192, 320, 384, 1024));
}

TEST(Recycling, ServesOnlyWhatRoundsToTheSame) {
  const std::vector<Buffer> buffers{{0, 1, 100}, {0, 1, 90}, {1, 2, 100}, {1, 2, 80}};
  EXPECT_THAT(pooled("exact-sizes", buffers).offsets, ElementsAre(0, 100, 0, 190));
  EXPECT_THAT(pooled("powers-of-two", buffers).offsets, ElementsAre(0, 128, 128, 0));
}

TEST(Colors, AreAsLargeAsTheLargestThatSharesThem) {
  // 100 and then 300 share the first color; it is too large for 10, which get their own.
  const std::vector<Buffer> buffers{{0, 1, 100}, {1, 2, 300}, {2, 3, 10}, {3, 4, 290}};
  const allocators::Pooled result = pooled("colors", buffers);
  EXPECT_THAT(result.blocks, ElementsAre(300, 300, 10, 300));
  EXPECT_THAT(result.offsets, ElementsAre(0, 0, 300, 0));
  EXPECT_EQ(result.height, 310);
}

TEST(Colors, TakeTheSmallestThatHoldsElseTheLargest) {
  // Holes of 50, 80 and 200 are free: 60 use the one of 80, then 300 the one of 200.
  const std::vector<Buffer> buffers{{0, 1, 50}, {0, 1, 80}, {0, 1, 200}, {1, 2, 60}, {1, 2, 300}};
  const allocators::Pooled result = pooled("colors", buffers);
  EXPECT_EQ(result.offsets[3], result.offsets[1]);
  EXPECT_EQ(result.offsets[4], result.offsets[2]);
  EXPECT_EQ(result.height, 50 + 80 + 300);
}

TEST(Requests, EndBeforeOthersBegin) {
  const std::vector<Buffer> buffers{{0, 2, 5}, {2, 3, 5}, {1, 1, 5}, {0, 2, 0}};
  const std::vector<allocators::Request> expected{{0, false}, {0, true}, {1, false}, {1, true}};
  EXPECT_EQ(allocators::requests_of(buffers), expected);
  EXPECT_EQ(allocators::most_alive(buffers), 5);
  EXPECT_EQ(allocators::most_alive(buffers), packing_lower_bound(buffers, 1));
}

TEST(Fragmentation, IsOfWhatIsNeeded) {
  EXPECT_DOUBLE_EQ(allocators::fragmentation(150, 100), 0.5);
  EXPECT_DOUBLE_EQ(allocators::fragmentation(0, 0), 0);
}

}  // namespace
}  // namespace lowtide::packing
