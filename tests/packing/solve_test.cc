#include "packing/solve.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "packing/csv.h"
#include "packing/packing_check.h"
#include "support/throws.h"

namespace lowtide::packing {
namespace {

using ::testing::HasSubstr;

SolvedPacking solved(const std::vector<Buffer>& buffers, Bytes alignment = 1) {
  constexpr std::int64_t kTestWork = kPackingWork / 20;
  return solve_packing(buffers, {.alignment = alignment, .work = kTestWork}, Control());
}

TEST(SolvePackingProperty, ProvesTheOptimumOfSmallInstances) {
  for (std::uint64_t seed = 0; seed < 150; ++seed) {
    SCOPED_TRACE(seed);
    const std::vector<Buffer> buffers = testing::buffers_without_room(seed);
    const SolvedPacking result = solved(buffers);
    EXPECT_TRUE(testing::is_packing(buffers, result.packing, 1));
    EXPECT_TRUE(result.proven());
    EXPECT_EQ(result.packing.height, testing::optimal_height(buffers));
  }
}

TEST(SolvePackingProperty, RespectsAlignmentsAndFixedOffsets) {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE(seed);
    std::vector<Buffer> buffers = testing::random_buffers(seed, 60, 40, 5000);
    for (std::size_t i = 0; i < buffers.size(); i += 5) buffers[i].alignment = 256;
    // The choices of one packing are consistent.
    const SolvedPacking first = solved(buffers, 64);
    for (std::size_t i = 0; i < buffers.size(); i += 4) buffers[i].fixed = first.packing.offsets[i];
    const SolvedPacking second = solved(buffers, 64);
    EXPECT_TRUE(testing::is_packing(buffers, second.packing, 64));
    EXPECT_GE(second.packing.height, second.lower_bound);
  }
}

TEST(SolvePacking, KnowsLivesFromTheFirstTimeToTheLast) {
  constexpr std::int32_t kFirst = std::numeric_limits<std::int32_t>::min();
  constexpr std::int32_t kLast = std::numeric_limits<std::int32_t>::max();
  const std::vector<Buffer> buffers{{0, 2, 10}, {kFirst, 4, 10}, {0, 3, 7}, {2, kLast, 9},
                                    {2, 5, 9},  {kFirst, 0, 9},  {2, 5, 9}};
  const SolvedPacking result = solved(buffers);
  EXPECT_TRUE(testing::is_packing(buffers, result.packing, 1));
  EXPECT_EQ(result.packing.height, 44);
  EXPECT_TRUE(result.proven());
}

class MinimallocBenchmark : public ::testing::TestWithParam<std::string> {};

TEST_P(MinimallocBenchmark, IsPackedAtItsCapacity) {
  constexpr Bytes kCapacity = 1'048'576;
  const BufferTable table =
      read_buffers(LOWTIDE_SOURCE_DIR "/data/layout/" + GetParam() + ".1048576.csv");
  const PackingGoal goal{.alignment = 1, .capacity = kCapacity, .work = 4 * kPackingWork};
  const SolvedPacking result = solve_packing(table.buffers, goal, Control());
  EXPECT_TRUE(testing::is_packing(table.buffers, result.packing, 1));
  EXPECT_LE(result.packing.height, kCapacity);
}

INSTANTIATE_TEST_SUITE_P(AToF, MinimallocBenchmark, ::testing::Values("A", "B", "C", "D", "E", "F"),
                         [](const auto& info) { return info.param; });

TEST(SolvePacking, ProvesABenchmarkThatHasRoomTheLowest) {
  const BufferTable table = read_buffers(LOWTIDE_SOURCE_DIR "/data/layout/C.1048576.csv");
  const SolvedPacking result = solved(table.buffers);
  EXPECT_TRUE(result.proven());
  EXPECT_EQ(result.packing.height, 1'039'360);
}

TEST(SolvePackingProperty, StopsAtTheCapacityOrProvesItInfeasible) {
  int above_the_bound = 0;
  for (std::uint64_t seed = 0; seed < 150; ++seed) {
    SCOPED_TRACE(seed);
    const std::vector<Buffer> buffers = testing::buffers_without_room(seed);
    const Bytes optimum = testing::optimal_height(buffers);
    above_the_bound += optimum > packing_lower_bound(buffers, 1);
    for (Bytes capacity = optimum - 1; capacity <= optimum + 1; ++capacity) {
      const PackingGoal goal{.alignment = 1, .capacity = capacity};
      const SolvedPacking result = solve_packing(buffers, goal, Control());
      EXPECT_EQ(result.packing.height <= capacity, capacity >= optimum) << capacity;
      EXPECT_EQ(result.lower_bound > capacity, capacity < optimum) << capacity;
    }
  }
  EXPECT_GT(above_the_bound, 3);  // else the bound alone proves all
}

TEST(SolvePacking, KeepsThePackingThatItHasWhenItIsStopped) {
  const auto buffers = testing::random_buffers(5, 300, 60, 5000);
  const Control over(1e-9);
  const SolvedPacking result = solve_packing(buffers, {.alignment = 1}, over);
  EXPECT_TRUE(testing::is_packing(buffers, result.packing, 1));
  EXPECT_GE(result.packing.height, result.lower_bound);
}

TEST(SolvePacking, SaysWhichFixedOffsetsAreWrong) {
  const auto with = [](Buffer a, Buffer b) { return solved({a, b}, 1); };
  const Buffer fixed{.begin = 0, .end = 4, .bytes = 10, .fixed = 8};
  Buffer other = fixed;
  other.fixed = 0;
  EXPECT_THROWS_INPUT_ERROR(with(fixed, other), HasSubstr("buffers 0 and 1"));
  EXPECT_THROWS_INPUT_ERROR(with(fixed, fixed), HasSubstr("buffers 0 and 1"));
  other.begin = 4, other.end = 6;
  EXPECT_EQ(with(fixed, other).packing.height, 18);
  other.fixed = -8;
  EXPECT_THROWS_INPUT_ERROR(with(fixed, other), HasSubstr("buffer 1: the fixed offset -8"));
  other.fixed = 4, other.alignment = 8;
  EXPECT_THROWS_INPUT_ERROR(with(fixed, other), HasSubstr("alignment 8"));
  other.alignment = 3;
  EXPECT_THROWS_INPUT_ERROR(with(fixed, other), HasSubstr("alignment 3"));
  EXPECT_THROWS_INPUT_ERROR(solved({fixed}, 12), HasSubstr("alignment 12"));
}

}  // namespace
}  // namespace lowtide::packing
