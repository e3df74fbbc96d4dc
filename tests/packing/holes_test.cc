#include "packing/holes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <random>

namespace lowtide::packing {
namespace {

/// Flags of used bytes by offset: the simplest model.
using Taken = std::map<Bytes, Bytes>;

bool is_free(const Taken& taken, Bytes offset, Bytes bytes) {
  return std::ranges::none_of(taken, [&](const auto& block) {
    return offset < block.first + block.second && block.first < offset + bytes;
  });
}

/// The smallest hole below the top that holds this many bytes; 0 when none does.
Bytes tightest(const Taken& taken, Bytes top, Bytes bytes) {
  Bytes end = 0, best = 0;
  const auto look_at = [&](Bytes size) {
    if (size >= bytes && (best == 0 || size < best)) best = size;
  };
  for (const auto& [offset, size] : taken) {
    look_at(offset - end);
    end = offset + size;
  }
  look_at(top - end);
  return best;
}

TEST(HolesProperty, TakeWhatIsFreeAndKnowTheEnds) {
  for (const Fit fit : {Fit::first, Fit::best, Fit::next}) {
    SCOPED_TRACE(static_cast<int>(fit));
    std::mt19937 random(static_cast<unsigned>(fit) + 1);
    Holes holes;
    Taken taken;
    Bytes top = 0;
    for (int i = 0; i < 5000; ++i) {
      if (taken.empty() || random() % 100 < 52) {
        const auto bytes = static_cast<Bytes>(1 + random() % 300);
        const Bytes hole = tightest(taken, top, bytes);
        const Bytes offset = holes.take(bytes, fit);
        ASSERT_TRUE(is_free(taken, offset, bytes));
        ASSERT_EQ(offset + bytes > top, hole == 0) << "grows where no hole is large enough";
        if (fit == Fit::best && hole > 0) {
          ASSERT_TRUE(is_free(taken, offset, hole)) << "the tightest hole";
          ASSERT_TRUE(offset + hole == top || !is_free(taken, offset + hole, 1)) << "no larger one";
        }
        taken[offset] = bytes;
        top = std::max(top, offset + bytes);
      } else {
        const auto block =
            std::next(taken.begin(), static_cast<std::ptrdiff_t>(random() % taken.size()));
        holes.give(block->first, block->second);
        taken.erase(block);
      }
      const Bytes end = taken.empty() ? 0 : taken.rbegin()->first + taken.rbegin()->second;
      ASSERT_EQ(holes.top(), top);
      ASSERT_EQ(holes.end(), end);
    }
  }
}

}  // namespace
}  // namespace lowtide::packing
