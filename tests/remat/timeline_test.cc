#include "remat/timeline.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace lowtide::remat {
namespace {

/// The same without blocks.
struct Plain {
  std::vector<Bytes> bytes;
  Bytes limit;

  Bytes peak() const { return *std::ranges::max_element(bytes); }
  Bytes excess() const {
    Bytes sum = 0;
    for (Bytes b : bytes) sum += std::max<Bytes>(0, b - limit);
    return sum;
  }
  int over_after(int from) const {
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      const std::size_t stage = (from + i) % bytes.size();
      if (bytes[stage] > limit) return static_cast<int>(stage);
    }
    return -1;
  }
  int over() const {
    return static_cast<int>(std::ranges::count_if(bytes, [&](Bytes b) { return b > limit; }));
  }
};

TEST(Timeline, AgreesWithPlainSums) {
  for (int stages : {1, 63, 64, 65, 300, 4096, 4097, 13000}) {
    std::mt19937_64 random(stages);
    const auto below = [&](int n) { return static_cast<int>(random() % n); };
    Timeline timeline(stages, 500);
    Plain plain{std::vector<Bytes>(stages), 500};
    const int steps = stages > 1000 ? 600 : 2000;
    for (int step = 0; step < steps; ++step) {
      int begin = below(stages + 1);
      int end = below(stages + 1);
      if (begin > end) std::swap(begin, end);
      const Bytes bytes = below(200) - 95;
      timeline.add(begin, end, bytes);
      for (int i = begin; i < end; ++i) plain.bytes[i] += bytes;
      if (step % 50 == 0) timeline.set_limit(plain.limit = 300 + below(400));
      if (step % 3 != 0) continue;
      ASSERT_EQ(timeline.peak(), plain.peak()) << stages << " stages, step " << step;
      ASSERT_EQ(timeline.excess(), plain.excess()) << stages << " stages, step " << step;
      ASSERT_EQ(timeline.stages_over(), plain.over()) << stages << " stages, step " << step;
      const int probe = below(stages);
      ASSERT_EQ(timeline.at(probe), plain.bytes[probe]);
      ASSERT_EQ(timeline.over_after(probe), plain.over_after(probe));
    }
  }
}

TEST(Timeline, FindsStagesAboveTheLimitAround) {
  Timeline timeline(200, 10);
  EXPECT_EQ(timeline.over_after(0), -1);
  timeline.add(50, 51, 11);
  timeline.add(150, 152, 12);
  EXPECT_EQ(timeline.over_after(0), 50);
  EXPECT_EQ(timeline.over_after(50), 50);
  EXPECT_EQ(timeline.over_after(51), 150);
  EXPECT_EQ(timeline.over_after(151), 151);
  EXPECT_EQ(timeline.over_after(152), 50);
}

}  // namespace
}  // namespace lowtide::remat
