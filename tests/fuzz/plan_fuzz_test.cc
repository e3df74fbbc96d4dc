// Every strategy and way plans random graphs; the answers do not contradict each other.

#include <gtest/gtest.h>

#include <vector>

#include "fuzz/plan_faults.h"
#include "support/sweep.h"

namespace lowtide::testing {
namespace {

/// tests/fuzz_plans continues from there without end.
TEST(FuzzPlans, AnswersAboutRandomGraphsHaveNoFault) {
  PlanTally all;
  std::vector<std::uint64_t> seeds{95, 111, 222, 496};  // of these some answers once had faults
  for (std::uint64_t seed = 0; seed < sweep(200u, 6u); ++seed) seeds.push_back(seed);
  for (std::uint64_t seed : seeds) {
    const PlanReading reading = read_as_plan_case(plan_case(seed));
    ASSERT_EQ(reading.fault, "") << "seed " << seed;
    all += reading.tally;
  }
  RecordProperty("tally", format_tally(all));
  EXPECT_GT(all.plans, 100);
  EXPECT_GT(all.refusals, 10);
  EXPECT_GT(all.packings, 50);
}

}  // namespace
}  // namespace lowtide::testing
