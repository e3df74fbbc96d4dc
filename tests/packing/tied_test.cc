// Buffers with ties, against all possible offsets.

#include "packing/tied.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <string>

#include "packing/packing_check.h"
#include "support/throws.h"

namespace lowtide::packing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::alive_together;

using Names = std::vector<std::string>;

SolvedPacking solved_tied(const std::vector<Buffer>& buffers, const Ties& ties,
                          Bytes alignment = 1) {
  return solve_tied_packing(buffers, ties, {.alignment = alignment, .work = kPackingWork / 100},
                            Control());
}

/// Buffers that share an offset as one: as large and alive as all together.
std::vector<Buffer> shared(std::vector<Buffer> buffers, const Names& same) {
  std::vector<Buffer> result = buffers;
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    for (std::size_t j = 0; j < buffers.size(); ++j) {
      if (same.empty() || same[i].empty() || same[i] != same[j]) continue;
      result[i].begin = std::min(result[i].begin, buffers[j].begin);
      result[i].end = std::max(result[i].end, buffers[j].end);
      result[i].bytes = std::max(result[i].bytes, buffers[j].bytes);
    }
  }
  return result;
}

/// One buffer for each set that shares an offset, and its group.
struct Reduced {
  std::vector<Buffer> buffers;
  Names groups;
};

Reduced reduced(const std::vector<Buffer>& buffers, const Ties& ties) {
  const std::vector<Buffer> all = shared(buffers, ties.same);
  Reduced result;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const bool is_tied = !ties.same.empty() && !ties.same[i].empty();
    if (is_tied && &*std::ranges::find(ties.same, ties.same[i]) != &ties.same[i]) continue;
    result.buffers.push_back(all[i]);
    result.groups.push_back(ties.groups.empty() ? "" : ties.groups[i]);
  }
  return result;
}

/// Tries every offset of every buffer that does not follow another of its group.
bool can_place(const Reduced& given, Bytes capacity, std::vector<Bytes>& offsets) {
  const std::size_t next = offsets.size();
  if (next == given.buffers.size()) return true;
  Bytes first = 0, last = capacity - given.buffers[next].bytes;
  for (std::size_t j = 0; j < next; ++j) {
    if (given.groups[next].empty() || given.groups[j] != given.groups[next]) continue;
    first = offsets[j] + given.buffers[j].bytes;
    last = std::min(last, first);
  }
  for (Bytes at = first; at <= last; ++at) {
    bool free = true;
    for (std::size_t j = 0; j < next && free; ++j) {
      free = !alive_together(given.buffers[next], given.buffers[j]) ||
             offsets[j] + given.buffers[j].bytes <= at ||
             at + given.buffers[next].bytes <= offsets[j];
    }
    if (!free) continue;
    offsets.push_back(at);
    if (can_place(given, capacity, offsets)) return true;
    offsets.pop_back();
  }
  return false;
}

Bytes lowest_height(const std::vector<Buffer>& buffers, const Ties& ties) {
  const Reduced given = reduced(buffers, ties);
  for (Bytes height = 0;; ++height) {
    std::vector<Bytes> offsets;
    if (can_place(given, height, offsets)) return height;
  }
}

void expect_holds(const std::vector<Buffer>& buffers, const Ties& ties, const Packing& packing) {
  const std::vector<Buffer> all = shared(buffers, ties.same);
  std::map<std::string, std::size_t> before;  // of a group: its last buffer so far
  for (std::size_t i = 0; i < all.size(); ++i) {
    EXPECT_LE(packing.offsets[i] + buffers[i].bytes, packing.height);
    bool is_first = true;
    for (std::size_t j = 0; j < i; ++j) {
      if (!ties.same.empty() && !ties.same[i].empty() && ties.same[i] == ties.same[j]) {
        EXPECT_EQ(packing.offsets[i], packing.offsets[j]);
        is_first = false;
      } else if (alive_together(all[i], all[j])) {
        EXPECT_TRUE(packing.offsets[i] + all[i].bytes <= packing.offsets[j] ||
                    packing.offsets[j] + all[j].bytes <= packing.offsets[i])
            << i << " and " << j;
      }
    }
    if (ties.groups.empty() || ties.groups[i].empty() || !is_first) continue;
    const auto at = before.find(ties.groups[i]);
    if (at != before.end()) {
      EXPECT_EQ(packing.offsets[i], packing.offsets[at->second] + all[at->second].bytes);
    }
    before[ties.groups[i]] = i;
  }
}

std::vector<Buffer> some_buffers(std::uint64_t seed, std::size_t count) {
  std::mt19937_64 random(seed);
  std::vector<Buffer> buffers;
  for (std::size_t i = 0; i < count; ++i) {
    const auto begin = static_cast<std::int32_t>(random() % 6);
    const auto length = static_cast<std::int32_t>(1 + random() % 4);
    buffers.push_back({begin, begin + length, static_cast<Bytes>(1 + random() % 5)});
  }
  return buffers;
}

TEST(TiedPacking, BuffersOfOneNameShareAnOffset) {
  const std::vector<Buffer> buffers{{0, 2, 10}, {0, 4, 4}, {2, 5, 8}};
  const SolvedPacking result = solved_tied(buffers, {.same = {"x", "", "x"}, .groups = {}});
  EXPECT_EQ(result.packing.offsets[0], result.packing.offsets[2]);
  EXPECT_EQ(result.packing.height, 14);
  EXPECT_TRUE(result.proven());
}

TEST(TiedPacking, AGroupLiesSideBySideInOrder) {
  // Two parts of a flat gradient, the second of which begins first; an ended buffer fits below.
  const std::vector<Buffer> buffers{{4, 9, 6}, {1, 9, 4}, {0, 4, 6}};
  const SolvedPacking result = solved_tied(buffers, {.same = {}, .groups = {"g", "g", ""}});
  EXPECT_THAT(result.packing.offsets, ElementsAre(0, 6, 0));
  EXPECT_EQ(result.packing.height, 10);
  EXPECT_TRUE(result.proven());
}

TEST(TiedPacking, PartsOfAGroupAreAligned) {
  const std::vector<Buffer> buffers{{0, 2, 10}, {0, 2, 10}, {0, 2, 200}};
  const SolvedPacking result = solved_tied(buffers, {.same = {}, .groups = {"g", "g", "g"}}, 64);
  EXPECT_THAT(result.packing.offsets, ElementsAre(0, 64, 128));
}

TEST(TiedPacking, AFixedPartFixesItsGroup) {
  std::vector<Buffer> buffers{{0, 2, 6}, {0, 2, 4}, {0, 2, 5}};
  buffers[1].fixed = 16;
  const SolvedPacking result = solved_tied(buffers, {.same = {}, .groups = {"g", "g", ""}});
  EXPECT_THAT(result.packing.offsets, ElementsAre(10, 16, 0));
  EXPECT_EQ(result.packing.height, 20);
}

TEST(TiedPacking, SaysWhatContradicts) {
  std::vector<Buffer> buffers{{0, 2, 6}, {0, 2, 4}};
  buffers[0].fixed = 0;
  buffers[1].fixed = 10;
  EXPECT_THROWS_INPUT_ERROR(solved_tied(buffers, {.same = {}, .groups = {"g", "g"}}),
                            HasSubstr("buffer 1: its fixed offset contradicts"));
  EXPECT_THROWS_INPUT_ERROR(solved_tied(buffers, {.same = {"x", "x"}, .groups = {}}),
                            HasSubstr("buffer 1: its fixed offset contradicts"));
  EXPECT_THROWS_INPUT_ERROR(solved_tied({{0, 2, 6}, {0, 2, 4}}, {{"x", "x"}, {"g", ""}}),
                            HasSubstr("share an offset, but not their group"));
}

TEST(TiedPackingProperty, IsTheLowestWhereGroupsLiveEquallyLong) {
  for (std::uint64_t seed = 0; seed < 150; ++seed) {
    SCOPED_TRACE(seed);
    std::vector<Buffer> buffers = some_buffers(seed, 6);
    buffers[3].begin = buffers[1].begin;
    buffers[3].end = buffers[1].end;
    const Ties ties{{"x", "", "x", "", "", ""}, {"", "g", "", "g", "", ""}};
    const SolvedPacking result = solved_tied(buffers, ties);
    expect_holds(buffers, ties, result.packing);
    EXPECT_TRUE(result.proven());
    EXPECT_EQ(result.packing.height, lowest_height(buffers, ties));
  }
}

TEST(TiedPackingProperty, IsSeldomAboveTheLowestWhereTheyDoNot) {
  int above = 0;
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    const std::vector<Buffer> buffers = some_buffers(seed, 7);
    const Ties ties{{"", "", "x", "", "x", "", ""}, {"g", "", "", "g", "", "h", "h"}};
    const SolvedPacking result = solved_tied(buffers, ties);
    expect_holds(buffers, ties, result.packing);
    const Bytes lowest = lowest_height(buffers, ties);
    EXPECT_GE(result.packing.height, lowest);
    EXPECT_LE(result.lower_bound, lowest);
    above += result.packing.height > lowest;
  }
  EXPECT_LE(above, 5);
}

TEST(TiedPackingProperty, WithoutTiesIsAsEver) {
  const std::vector<Buffer> buffers = testing::random_buffers(5, 80, 40, 1000);
  const PackingGoal goal{.alignment = 1, .work = kPackingWork / 100};
  const SolvedPacking plain = solve_packing(buffers, goal, Control());
  const Names none(buffers.size());
  EXPECT_EQ(solved_tied(buffers, {}).packing.offsets, plain.packing.offsets);
  EXPECT_EQ(solved_tied(buffers, {none, none}).packing.offsets, plain.packing.offsets);
}

}  // namespace
}  // namespace lowtide::packing
