#include "packing/skeleton.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "packing/ejection_search.h"
#include "packing/guides.h"
#include "packing/packing_check.h"
#include "packing/valley_search.h"

namespace lowtide::packing {
namespace {

constexpr Bytes kMost = 5000;
constexpr std::int64_t kValleyWork = 20'000'000;

std::vector<Buffer> some_fixed(std::uint64_t seed) {
  std::vector<Buffer> buffers = testing::random_buffers(seed, 60, 40, kMost);
  buffers[0].fixed = 0;
  buffers[1].alignment = 64;
  return buffers;
}

/// The buffers of the skeleton, in its order.
std::vector<Buffer> chosen(const std::vector<Buffer>& buffers, const Instance& whole,
                           const Skeleton& skeleton) {
  std::vector<Buffer> result;
  for (const std::int32_t item : skeleton.items) result.push_back(buffers[whole.buffers[item]]);
  return result;
}

TEST(SkeletonProperty, HasWhatIsLargeOrFixedAndWhatOfThatIsAliveTogether) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    SCOPED_TRACE(seed);
    const std::vector<Buffer> buffers = some_fixed(seed);
    const Instance whole = instance_of(buffers);
    const Skeleton skeleton = skeleton_of(whole, kMost / 2);
    const auto large = std::ranges::count_if(buffers, [](const Buffer& b) {
      return takes_room(b) && (b.bytes >= kMost / 2 || b.fixed);
    });
    ASSERT_EQ(static_cast<std::ptrdiff_t>(skeleton.items.size()), large);
    EXPECT_EQ(lower_bound(skeleton.instance),
              packing_lower_bound(chosen(buffers, whole, skeleton), 1));
  }
}

TEST(SkeletonProperty, ItsPackingIsPartOfOneOfTheWhole) {
  int packed = 0;
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    SCOPED_TRACE(seed);
    const std::vector<Buffer> buffers = some_fixed(seed);
    const Instance whole = instance_of(buffers);
    const Skeleton skeleton = skeleton_of(whole, kMost / 2);
    const Bytes capacity = lower_bound(whole) * 11 / 10;
    const Guide guide = nth_guide(skeleton.instance, 0);
    const Attempt attempt =
        search_valleys(skeleton.instance, capacity, guide, kValleyWork, kValleyWork, Control());
    if (attempt.verdict != Verdict::packed) continue;
    const auto start = offsets_of_whole(skeleton, attempt.offsets, whole);
    const auto unplaced = std::ranges::count(start, EjectionSearch::kUnplaced);
    EXPECT_EQ(static_cast<std::size_t>(unplaced), whole.items.size() - skeleton.items.size());

    std::vector<Bytes> part;
    for (const std::int32_t item : skeleton.items) part.push_back(start[item]);
    EXPECT_TRUE(testing::is_packing(chosen(buffers, whole, skeleton), {part, capacity}, 1));

    EjectionSearch rest(whole, start);
    if (!rest.pack_within(capacity, kValleyWork, Control())) continue;
    ++packed;
    Packing packing{std::vector<Bytes>(buffers.size()), capacity};
    for (std::size_t i = 0; i < whole.items.size(); ++i) {
      packing.offsets[whole.buffers[i]] = rest.offsets()[i];
    }
    EXPECT_TRUE(testing::is_packing(buffers, packing, 1));
  }
  EXPECT_GT(packed, 40);
}

TEST(Skeletons, EndWithTheWholeAndGrow) {
  std::vector<Buffer> buffers = testing::random_buffers(1, 200, 60, 1'000'000);
  for (std::size_t i = 0; i < buffers.size(); i += 2) buffers[i].bytes = 1 + buffers[i].bytes % 500;
  const Instance whole = instance_of(buffers);
  const std::vector<Skeleton> all = skeletons(whole);
  ASSERT_GT(all.size(), 1U);
  EXPECT_EQ(all.back().items.size(), whole.items.size());
  for (std::size_t i = 1; i < all.size(); ++i) {
    EXPECT_LT(all[i - 1].items.size(), all[i].items.size());
  }
}

}  // namespace
}  // namespace lowtide::packing
