// Best, first and next fit against a simple model of the same.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "packing/allocators/requests.h"
#include "packing/holes.h"
#include "packing/packing_check.h"
#include "packing/pooled.h"

namespace lowtide::packing {
namespace {

using ::testing::ElementsAre;
using testing::pooled;
using testing::then_ask;

/// One flag a byte.
class Plain {
 public:
  Bytes take(Bytes bytes, Fit fit) {
    const std::vector<Buffer> holes = all_holes();  // [begin, end) is a range of bytes here
    const Buffer* chosen = nullptr;
    for (const Buffer& hole : rotated(holes, fit)) {
      if (hole.bytes < bytes) continue;
      const bool better = chosen == nullptr || (fit == Fit::best && hole.bytes < chosen->bytes);
      if (better) chosen = &*std::ranges::find(holes, hole.begin, &Buffer::begin);
    }
    Bytes offset = static_cast<Bytes>(used_.size());
    if (chosen != nullptr) {
      offset = chosen->begin;
    } else if (!holes.empty() && holes.back().end == offset) {
      offset = holes.back().begin;
    }
    used_.resize(std::max<std::size_t>(used_.size(), offset + bytes));
    std::fill_n(used_.begin() + offset, bytes, true);
    last_ = offset + bytes;
    return offset;
  }
  void give(Bytes offset, Bytes bytes) { std::fill_n(used_.begin() + offset, bytes, false); }
  Bytes height() const { return static_cast<Bytes>(used_.size()); }

 private:
  std::vector<Buffer> all_holes() const {
    std::vector<Buffer> holes;
    for (std::size_t at = 0; at < used_.size(); ++at) {
      if (used_[at]) continue;
      const auto here = static_cast<std::int32_t>(at);
      if (holes.empty() || holes.back().end != here) holes.push_back({here, here, 0});
      ++holes.back().end;
      ++holes.back().bytes;
    }
    return holes;
  }

  std::vector<Buffer> rotated(std::vector<Buffer> holes, Fit fit) const {
    if (fit != Fit::next) return holes;
    const auto start = std::ranges::find_if(holes, [&](auto& hole) { return hole.begin >= last_; });
    std::rotate(holes.begin(), start, holes.end());
    return holes;
  }

  std::vector<bool> used_;
  Bytes last_ = 0;
};

TEST(Fits, AreThoseOfAPlainReimplementation) {
  const std::pair<std::string, Fit> fits[] = {
      {"best-fit", Fit::best}, {"first-fit", Fit::first}, {"next-fit", Fit::next}};
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const std::vector<Buffer> buffers = testing::random_buffers(seed, 60, 40, 30);
    for (const auto& [name, fit] : fits) {
      SCOPED_TRACE(name + " " + std::to_string(seed));
      Plain plain;
      std::vector<Bytes> offsets(buffers.size());
      for (const auto& [i, gives_back] : allocators::requests_of(buffers)) {
        if (gives_back) plain.give(offsets[i], buffers[i].bytes);
        else offsets[i] = plain.take(buffers[i].bytes, fit);
      }
      const allocators::Pooled result = pooled(name, buffers);
      EXPECT_EQ(result.offsets, offsets);
      EXPECT_EQ(result.height, plain.height());
    }
  }
}

TEST(Fits, MergeAllThatIsFree) {
  for (const std::string name : {"best-fit", "first-fit", "next-fit"}) {
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
      const std::vector<Buffer> buffers = testing::random_buffers(seed, 100, 40, 1000);
      const Bytes height = pooled(name, buffers).height;
      const allocators::Pooled again = pooled(name, then_ask(buffers, height));
      EXPECT_EQ(again.height, height) << name << " " << seed;
      EXPECT_EQ(again.offsets.back(), 0) << name << " " << seed;
    }
  }
}

/// Holes of 30 at 0 and of 20 at 40, then one request for 20 and one for 5.
std::vector<Buffer> two_holes() {
  return {{0, 1, 30}, {0, 9, 10}, {0, 1, 20}, {0, 9, 10}, {1, 9, 20}, {2, 9, 5}};
}

TEST(Fits, ChooseTheirHole) {
  EXPECT_THAT(pooled("best-fit", two_holes()).offsets, ElementsAre(0, 30, 40, 60, 40, 0));
  EXPECT_THAT(pooled("first-fit", two_holes()).offsets, ElementsAre(0, 30, 40, 60, 0, 20));
  // The search continues after the last 70 bytes, then starts again from the bottom.
  EXPECT_THAT(pooled("next-fit", two_holes()).offsets, ElementsAre(0, 30, 40, 60, 0, 20));
  std::vector<Buffer> third = two_holes();
  third.push_back({3, 9, 5});  // 5 bytes are left at 25, but the next hole is the one of 20
  third[5].bytes = 10;         // nothing is left at 20
  EXPECT_EQ(pooled("next-fit", third).offsets[6], 40);
  EXPECT_EQ(pooled("first-fit", third).offsets[6], 40);
}

}  // namespace
}  // namespace lowtide::packing
