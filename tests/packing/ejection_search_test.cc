#include "packing/ejection_search.h"

#include <gtest/gtest.h>

#include <vector>

#include "packing/packing_check.h"

namespace lowtide::packing {
namespace {

using testing::packing_of;
using testing::stacked;

constexpr std::int64_t kEjectionWork = 5'000'000;

TEST(EjectionSearchProperty, ReachesTheOptimumOfSmallInstances) {
  for (std::uint64_t seed = 0; seed < 150; ++seed) {
    SCOPED_TRACE(seed);
    const std::vector<Buffer> buffers = testing::buffers_without_room(seed);
    const Instance instance = instance_of(buffers);
    if (instance.items.empty()) continue;
    const Bytes optimum = testing::optimal_height(buffers);
    EjectionSearch search(instance, stacked(instance));
    ASSERT_TRUE(search.pack_within(optimum, kEjectionWork, Control()));
    EXPECT_TRUE(testing::is_packing(
        buffers, packing_of(instance, buffers, search.offsets(), optimum), 1));
    EXPECT_FALSE(search.pack_within(optimum - 1, kEjectionWork / 50, Control()));
    ASSERT_TRUE(search.pack_within(optimum, kEjectionWork, Control()))
        << "it goes on from a failure";
  }
}

TEST(EjectionSearchProperty, RespectsAlignmentsAndFixedOffsets) {
  int packed = 0;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE(seed);
    std::vector<Buffer> buffers = testing::random_buffers(seed, 40, 30, 5000);
    for (std::size_t i = 0; i < buffers.size(); i += 3) buffers[i].alignment = 256;
    Bytes top = 0;
    for (std::size_t i = 0; i < buffers.size(); i += 7) {
      top = align_up(top, buffers[i].alignment);
      buffers[i].fixed = top;
      top += buffers[i].bytes;
    }
    const Instance instance = instance_of(buffers);
    const Bytes capacity = lower_bound(instance) * 5 / 4;
    EjectionSearch search(instance, stacked(instance));
    if (!search.pack_within(capacity, kEjectionWork, Control())) continue;
    ++packed;
    EXPECT_TRUE(testing::is_packing(
        buffers, packing_of(instance, buffers, search.offsets(), capacity), 1));
  }
  EXPECT_GT(packed, 30);
}

TEST(EjectionSearch, StopsWhenItsWorkIsUsedUp) {
  const std::vector<Buffer> buffers{{0, 2, 10}, {1, 3, 10}};
  const Instance instance = instance_of(buffers);
  EjectionSearch search(instance, {0, 10});
  EXPECT_FALSE(search.pack_within(19, 1000, Control()));
  EXPECT_LT(search.work(), 1100);
}

}  // namespace
}  // namespace lowtide::packing
