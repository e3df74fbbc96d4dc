#include "packing/stacking.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "packing/packing_check.h"

namespace lowtide::packing {
namespace {

using Level = Stacking::Level;

bool meet(const Level& a, const Level& b) { return a.first <= b.last && b.first <= a.last; }

/// Checks offsets and reaches against all pairs.
void expect_settled(const Stacking& stacking, const Instance& instance) {
  const std::vector<Level>& levels = stacking.levels();
  Bytes height = 0;
  for (std::size_t i = 0; i < levels.size(); ++i) {
    const Bytes bytes = instance.items[levels[i].id].bytes;
    Bytes offset = 0, above = 0;
    for (std::size_t j = 0; j < levels.size(); ++j) {
      if (i == j || !meet(levels[i], levels[j])) continue;
      if (j < i) offset = std::max(offset, levels[j].top);
      if (j > i) above = std::max(above, levels[j].reach);
    }
    EXPECT_EQ(stacking.offset(levels[i].id), offset);
    EXPECT_EQ(levels[i].top, offset + bytes);
    EXPECT_EQ(levels[i].reach, bytes + above);
    if (i > 0) {
      EXPECT_LE(stacking.offset(levels[i - 1].id), offset);
    }
    height = std::max(height, levels[i].top);
  }
  EXPECT_EQ(stacking.height(), height);
}

TEST(StackingProperty, AgreesWithAllPairsWhateverGoesInAndOut) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    const Instance instance = instance_of(testing::random_buffers(seed, 30, 20, 100));
    if (instance.items.empty()) continue;
    std::mt19937_64 random(seed);
    std::vector<Bytes> offsets;
    for (std::size_t i = 0; i < instance.items.size(); ++i) {
      offsets.push_back(static_cast<Bytes>(random() % 50));
    }
    Stacking stacking(instance, offsets);
    expect_settled(stacking, instance);
    for (int move = 0; move < 30; ++move) {
      const auto item = static_cast<Stacking::ItemId>(random() % instance.items.size());
      stacking.remove(item);
      stacking.settle();
      expect_settled(stacking, instance);
      stacking.insert(item, random() % (stacking.levels().size() + 1));
      stacking.settle();
      expect_settled(stacking, instance);
    }
  }
}

TEST(StackingProperty, PutsBackWhatItTookOut) {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE(seed);
    const Instance instance = instance_of(testing::random_buffers(seed, 30, 20, 100));
    if (instance.items.empty()) continue;
    Stacking stacking(instance, std::vector<Bytes>(instance.items.size(), 0));
    const std::vector<Bytes> before = stacking.offsets();
    for (std::size_t i = 0; i < instance.items.size(); ++i) {
      const auto item = static_cast<Stacking::ItemId>(i);
      stacking.insert(item, stacking.remove(item));
      stacking.settle();
      EXPECT_EQ(stacking.offsets(), before);
    }
  }
}

TEST(Stacking, LetsWhatLayOnAnItemSink) {
  const std::vector<Buffer> buffers{{0, 2, 10}, {0, 4, 5}, {3, 6, 7}, {5, 8, 1}};
  const Instance instance = instance_of(buffers);
  Stacking stacking(instance, {0, 10, 20, 30});
  EXPECT_EQ(stacking.offsets(), (std::vector<Bytes>{0, 10, 15, 22}));
  EXPECT_EQ(stacking.height(), 23);
  stacking.remove(0);
  stacking.settle();
  EXPECT_EQ(stacking.offset(1), 0);
  EXPECT_EQ(stacking.offset(2), 5);
  EXPECT_EQ(stacking.height(), 13);
  stacking.insert(0, 3);
  stacking.settle();
  EXPECT_EQ(stacking.offsets(), (std::vector<Bytes>{5, 0, 5, 12}));
}

}  // namespace
}  // namespace lowtide::packing
