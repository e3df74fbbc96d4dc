#include "packing/valley_search.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>
#include <utility>
#include <vector>

#include "packing/guides.h"
#include "packing/packing_check.h"

namespace lowtide::packing {
namespace {

constexpr std::int64_t kNoLimit = std::numeric_limits<std::int64_t>::max();

Attempt search(const Instance& instance, Bytes capacity, std::int64_t guide) {
  return search_valleys(instance, capacity, nth_guide(instance, guide), kNoLimit, kNoLimit,
                        Control());
}

Packing packing_of(const Instance& instance, const std::vector<Buffer>& buffers,
                   const Attempt& attempt) {
  Packing packing{std::vector<Bytes>(buffers.size()), 0};
  for (std::size_t i = 0; i < attempt.offsets.size(); ++i) {
    packing.offsets[instance.buffers[i]] = attempt.offsets[i];
    packing.height =
        std::max(packing.height, attempt.offsets[i] + instance.items[i].bytes);
  }
  return packing;
}

std::vector<Buffer> reversed(std::vector<Buffer> buffers) {
  for (Buffer& buffer : buffers) {
    std::swap(buffer.begin, buffer.end);
    buffer.begin = -buffer.begin;
    buffer.end = -buffer.end;
  }
  return buffers;
}

/// Packs at the optimum, and proves that nothing is lower.
void expect_optimum(const std::vector<Buffer>& buffers, Bytes optimum, std::int64_t guide) {
  const Instance instance = instance_of(buffers);
  if (instance.items.empty()) return;
  const Attempt found = search(instance, optimum, guide);
  ASSERT_EQ(found.verdict, Verdict::packed);
  const Packing packing = packing_of(instance, buffers, found);
  EXPECT_TRUE(testing::is_packing(buffers, packing, 1));
  EXPECT_LE(packing.height, optimum);
  EXPECT_EQ(search(instance, optimum - 1, guide).verdict, Verdict::impossible);
}

TEST(ValleySearchProperty, FindsTheOptimumByEveryRuleForwardsBackwardsAndShuffled) {
  int above_the_bound = 0;
  for (std::uint64_t seed = 0; seed < 150; ++seed) {
    SCOPED_TRACE(seed);
    std::vector<Buffer> buffers = testing::buffers_without_room(seed);
    const Bytes optimum = testing::optimal_height(buffers);
    above_the_bound += optimum > packing_lower_bound(buffers, 1);
    for (std::int64_t guide = 0; guide < 25; guide += 3) expect_optimum(buffers, optimum, guide);
    expect_optimum(reversed(buffers), optimum, static_cast<std::int64_t>(seed));
    std::ranges::shuffle(buffers, std::mt19937_64(seed));
    expect_optimum(buffers, optimum, static_cast<std::int64_t>(seed));
  }
  EXPECT_GT(above_the_bound, 3);  // else only the bound proves anything
}

TEST(ValleySearchProperty, RespectsAlignmentsAndFixedOffsetsAndMissesNoPacking) {
  int packed = 0, impossible = 0;
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    std::vector<Buffer> buffers = testing::random_buffers(seed, 6, 6, 6);
    for (Buffer& buffer : buffers) {
      buffer.bytes = std::max<Bytes>(buffer.bytes, 1);
      if (random() % 3 == 0) buffer.alignment = Bytes{1} << (random() % 3);
      if (random() % 4 == 0) {
        buffer.fixed = static_cast<Bytes>(random() % 8) / buffer.alignment * buffer.alignment;
      }
    }
    const Bytes capacity = packing_lower_bound(buffers, 1) + static_cast<Bytes>(random() % 3);
    const bool can = testing::can_pack(buffers, capacity);
    const Instance instance = instance_of(buffers);
    const Attempt attempt = search(instance, capacity, static_cast<std::int64_t>(seed) % 25);
    ASSERT_EQ(attempt.verdict, can ? Verdict::packed : Verdict::impossible);
    (can ? packed : impossible) += 1;
    if (can) {
      const Packing packing = packing_of(instance, buffers, attempt);
      EXPECT_TRUE(testing::is_packing(buffers, packing, 1));
      EXPECT_LE(packing.height, capacity);
    }
  }
  EXPECT_GT(packed, 50);
  EXPECT_GT(impossible, 50);
}

TEST(ValleySearch, EndsWhenItsNodesAreUsedUp) {
  const Instance instance = instance_of(testing::random_buffers(1, 200, 100, 1000));
  const Attempt attempt = search_valleys(instance, lower_bound(instance), nth_guide(instance, 0),
                                         10, kNoLimit, Control());
  EXPECT_EQ(attempt.verdict, Verdict::out_of_work);
  EXPECT_EQ(attempt.nodes, 10);
}

TEST(ValleySearch, GoesAsDeepAsThereAreBuffers) {
  std::vector<Buffer> buffers;
  for (std::int32_t i = 0; i < 5'000; ++i) buffers.push_back({i, i + 2, 1 + i % 7});
  const Instance instance = instance_of(buffers);
  const Attempt attempt = search(instance, lower_bound(instance) + 7, 0);
  ASSERT_EQ(attempt.verdict, Verdict::packed);
}

TEST(Luby, IsTheSequenceOfThePaper) {
  const std::vector<std::int64_t> expected{1, 1, 2, 1, 1, 2, 4, 1, 1, 2, 1, 1, 2, 4, 8, 1};
  for (std::size_t n = 0; n < expected.size(); ++n) {
    EXPECT_EQ(luby(static_cast<std::int64_t>(n)), expected[n]) << n;
  }
}

}  // namespace
}  // namespace lowtide::packing
