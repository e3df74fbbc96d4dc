// Tables with faults are refused with a reason or read; packings are correct.

#include <gtest/gtest.h>

#include "fuzz/layout_faults.h"
#include "fuzz/layout_texts.h"

namespace lowtide::testing {
namespace {

TEST(FuzzLayout, ReadsWhatIsValid) {
  for (const std::string& text : valid_tables()) {
    const Reading reading = read_as_layout(text);
    EXPECT_TRUE(reading.accepted) << text;
    EXPECT_EQ(reading.fault, "") << text;
  }
}

/// tests/fuzz_layout continues from there without end.
TEST(FuzzLayout, ReadsAndPacksWhatItIsGiven) {
  int accepted = 0, refused = 0;
  for (std::uint64_t seed = 0; seed < 2000; ++seed) {
    const std::string text = layout_text(seed);
    const Reading reading = read_as_layout(text);
    ASSERT_EQ(reading.fault, "") << "seed " << seed << ": " << text;
    (reading.accepted ? accepted : refused) += 1;
  }
  EXPECT_GT(accepted, 200);
  EXPECT_GT(refused, 200);
}

}  // namespace
}  // namespace lowtide::testing
