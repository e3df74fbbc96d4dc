#include "slower/blocks.h"

#include <gtest/gtest.h>

#include <random>

#include "support/sweep.h"

namespace lowtide::slower {
namespace {

std::vector<Range> ranges_of(const BlockList& blocks) {
  std::vector<Range> ranges;
  for (const auto& block : blocks) ranges.push_back(block->range);
  return ranges;
}

TEST(Blocks, CutsAtTheLargestSizeFromAnAlignedOffset) {
  Blocks blocks(16, 4);
  EXPECT_EQ(ranges_of(blocks.replace({3, 40})),
            (std::vector<Range>{{3, 16}, {16, 32}, {32, 40}}));
  EXPECT_EQ(ranges_of(blocks.replace({8, 24})), (std::vector<Range>{{8, 24}}));
  EXPECT_TRUE(blocks.replace({8, 8}).empty());
}

TEST(Blocks, KnowsWhoseBytesLieInTheSamePage) {
  Blocks blocks(16, 4);
  const auto first = blocks.replace({0, 6});
  const auto third = blocks.replace({11, 13});
  const auto second = blocks.replace({6, 11});
  EXPECT_FALSE(first.front()->shares_back) << "it was alone when it was written";
  EXPECT_FALSE(third.front()->shares_front);
  EXPECT_TRUE(second.front()->shares_front);
  EXPECT_TRUE(second.back()->shares_back);
  EXPECT_FALSE(blocks.replace({16, 17}).front()->shares_front);
}

TEST(Blocks, CoversWhatWasWrittenAndNotOverwrittenSince) {
  constexpr int kBytes = 64;
  for (unsigned seed = 0; seed < testing::sweep(200u, 20u); ++seed) {
    std::mt19937 random(seed);
    Blocks blocks(16, 4);
    std::vector<const Block*> owner(kBytes, nullptr);
    std::vector<BlockList> kept;  // so that no address comes twice
    for (int step = 0; step < 100; ++step) {
      const Bytes begin = random() % kBytes, end = begin + random() % (kBytes - begin + 1);
      if (random() % 2) {
        kept.push_back(blocks.replace({begin, end}));
        for (Bytes byte = begin; byte < end; ++byte) {
          const Block* const lost = owner[byte];
          if (lost) std::replace(owner.begin(), owner.end(), lost, (const Block*)nullptr);
        }
        for (const auto& block : kept.back()) {
          for (Bytes byte = block->range.begin; byte < block->range.end; ++byte) {
            owner[byte] = block.get();
          }
        }
        continue;
      }
      std::vector<const Block*> expected(owner.begin() + begin, owner.begin() + end);
      expected.erase(std::unique(expected.begin(), expected.end()), expected.end());
      if (std::count(expected.begin(), expected.end(), nullptr)) expected.clear();
      std::vector<const Block*> got;
      for (const auto& block : blocks.covering({begin, end})) got.push_back(block.get());
      EXPECT_EQ(got, expected) << "seed " << seed << ", bytes " << begin << " to " << end;
    }
  }
}

}  // namespace
}  // namespace lowtide::slower
