// Files with faults are refused with a reason or read; they never break the program.

#include <gtest/gtest.h>

#include <string>

#include "fuzz/documents.h"
#include "fuzz/faults.h"
#include "fuzz/mutate.h"

namespace lowtide {
namespace {

using testing::mutated;
using testing::read_as_anything;
using testing::Reading;
using testing::valid_texts;

TEST(Fuzz, ReadsWhatIsValid) {
  for (const std::string& text : valid_texts()) {
    const Reading reading = read_as_anything(text);
    EXPECT_TRUE(reading.accepted) << text;
    EXPECT_EQ(reading.fault, "") << text;
  }
}

/// tests/fuzz_graph continues from there without end.
TEST(Fuzz, RefusesOrReadsWhatIsMutated) {
  int accepted = 0, refused = 0;
  for (std::uint64_t seed = 0; seed < 2000; ++seed) {
    const std::string text = mutated(valid_texts()[seed % valid_texts().size()], seed);
    const Reading reading = read_as_anything(text);
    ASSERT_EQ(reading.fault, "") << "seed " << seed << ": " << text;
    (reading.accepted ? accepted : refused) += 1;
  }
  EXPECT_GT(accepted, 300);
  EXPECT_GT(refused, 300);
}

}  // namespace
}  // namespace lowtide
