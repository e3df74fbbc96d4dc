#include "layout/ejection_search.h"

#include <gtest/gtest.h>

#include <vector>

#include "layout/packing_check.h"

namespace lowtide {
namespace {

constexpr std::int64_t kWork = 5'000'000;

/// One item on the other, in order, each at its alignment: a packing, and a bad one. What is fixed
/// lies at the bottom.
std::vector<Bytes> stacked(const Instance& instance) {
  std::vector<Bytes> offsets;
  Bytes top = 0;
  for (const Item& item : instance.items) {
    if (item.fixed != Item::kFree) top = std::max(top, item.fixed + item.bytes);
  }
  for (const Item& item : instance.items) {
    const bool is_fixed = item.fixed != Item::kFree;
    offsets.push_back(is_fixed ? item.fixed : align_up(top, item.alignment));
    if (!is_fixed) top = offsets.back() + item.bytes;
  }
  return offsets;
}

Packing packing_of(const Instance& instance, const std::vector<Buffer>& buffers,
                   const std::vector<Bytes>& offsets, Bytes height) {
  Packing packing{std::vector<Bytes>(buffers.size()), height};
  for (std::size_t i = 0; i < offsets.size(); ++i) {
    packing.offsets[instance.buffers[i]] = offsets[i];
  }
  return packing;
}

TEST(EjectionSearchProperty, ReachesTheOptimumOfSmallInstances) {
  for (std::uint64_t seed = 0; seed < 150; ++seed) {
    SCOPED_TRACE(seed);
    const std::vector<Buffer> buffers = testing::buffers_without_room(seed);
    const Instance instance = instance_of(buffers);
    if (instance.items.empty()) continue;
    const Bytes optimum = testing::optimal_height(buffers);
    EjectionSearch search(instance, stacked(instance));
    ASSERT_TRUE(search.pack_within(optimum, kWork, Control()));
    EXPECT_TRUE(testing::is_packing(
        buffers, packing_of(instance, buffers, search.offsets(), optimum), 1));
    EXPECT_FALSE(search.pack_within(optimum - 1, kWork / 50, Control()));
    ASSERT_TRUE(search.pack_within(optimum, kWork, Control())) << "it goes on from a failure";
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
    if (!search.pack_within(capacity, kWork, Control())) continue;
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
}  // namespace lowtide
