#include "packing/reinsertion_search.h"

#include <gtest/gtest.h>

#include <vector>

#include "packing/packing_check.h"

namespace lowtide::packing {
namespace {

using testing::stacked;

constexpr std::int64_t kReinsertionWork = 20'000'000;

::testing::AssertionResult is_packing(const ReinsertionSearch& search, const Instance& instance,
                                      const std::vector<Buffer>& buffers) {
  return testing::is_packing(
      buffers, testing::packing_of(instance, buffers, search.offsets(), search.height()), 1);
}

TEST(ReinsertionSearchProperty, ReachesTheOptimumOfSmallInstances) {
  for (std::uint64_t seed = 0; seed < 150; ++seed) {
    SCOPED_TRACE(seed);
    const std::vector<Buffer> buffers = testing::buffers_without_room(seed);
    const Instance instance = instance_of(buffers);
    if (instance.items.empty()) continue;
    const Bytes optimum = testing::optimal_height(buffers);
    ReinsertionSearch search(instance, stacked(instance));
    search.lower(optimum, kReinsertionWork, Control());
    EXPECT_EQ(search.height(), optimum);
    EXPECT_TRUE(is_packing(search, instance, buffers));
  }
}

TEST(ReinsertionSearchProperty, KeepsTheLowestPackingAndNeverOverlaps) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE(seed);
    const std::vector<Buffer> buffers = testing::random_buffers(seed, 60, 40, 5000);
    const Instance instance = instance_of(buffers);
    ReinsertionSearch search(instance, stacked(instance));
    Bytes before = search.height();
    for (int i = 0; i < 5; ++i) {
      search.lower(lower_bound(instance), kReinsertionWork / 50, Control());
      EXPECT_LE(search.height(), before);
      before = search.height();
      EXPECT_TRUE(is_packing(search, instance, buffers));
    }
  }
}

TEST(ReinsertionSearch, GoesOnFromAnotherPacking) {
  const std::vector<Buffer> buffers{{0, 2, 10}, {1, 3, 10}};
  const Instance instance = instance_of(buffers);
  ReinsertionSearch search(instance, {0, 10});
  search.start_from({10, 0});
  EXPECT_EQ(search.offsets(), (std::vector<Bytes>{10, 0}));
}

TEST(ReinsertionSearch, StopsWhenItsWorkIsUsedUp) {
  const std::vector<Buffer> buffers{{0, 2, 10}, {1, 3, 10}};
  const Instance instance = instance_of(buffers);
  ReinsertionSearch search(instance, {0, 10});
  search.lower(19, 1000, Control());
  EXPECT_EQ(search.height(), 20);
  EXPECT_LT(search.work(), 1200);
}

TEST(ReinsertionSearch, LeavesFixedOffsetsAndAlignmentsToOthers) {
  EXPECT_TRUE(ReinsertionSearch::can_search(instance_of({{0, 2, 10}})));
  EXPECT_TRUE(ReinsertionSearch::can_search(instance_of({{0, 2, 64, 32}})));
  EXPECT_FALSE(ReinsertionSearch::can_search(instance_of({{0, 2, 10, 64}, {0, 2, 7}})));
  EXPECT_FALSE(ReinsertionSearch::can_search(instance_of({{0, 2, 10, 1, 5}})));
}

}  // namespace
}  // namespace lowtide::packing
