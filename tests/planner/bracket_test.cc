#include "planner/bracket.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace lowtide::planner {
namespace {

TEST(Bracket, AsksForLessByWhatIsMissing) {
  Bracket bracket(1'000'000);
  EXPECT_FALSE(bracket.has_begun());
  EXPECT_EQ(bracket.after_too_large(1'000'000, 10'000, false), 989'999);
  EXPECT_TRUE(bracket.has_begun());
}

TEST(Bracket, EndsWhenAllIsSaid) {
  Bracket nothing(1'000'000);
  EXPECT_EQ(nothing.after_infeasible(1'000'000), std::nullopt);
  Bracket fits(1'000'000);
  EXPECT_EQ(fits.after_fitting(1'000'000), std::nullopt);
  Bracket narrow(1'000'000);
  EXPECT_EQ(narrow.after_too_large(1'000'000, 1, false), 999'499);  // 1/2000 of the budget at least
  EXPECT_EQ(narrow.after_fitting(999'499), std::nullopt);           // too narrow to ask between
}

/// A strategy whose plans have arenas larger than their peaks by a share that varies, and none
/// below a smallest peak.
struct Wasteful {
  double least_waste, most_waste;
  Bytes smallest_peak;
  std::mt19937 random;

  Bytes arena_of(Bytes asked) {
    std::uniform_real_distribution<double> waste(least_waste, most_waste);
    return static_cast<Bytes>(static_cast<double>(asked) * (1 + waste(random)));
  }
};

TEST(BracketProperty, AsksBetweenWhatFailedAndWhatFitsAndEnds) {
  std::mt19937 random(7);
  for (int trial = 0; trial < 500; ++trial) {
    SCOPED_TRACE(trial);
    constexpr Bytes kBudget = 10'000'000;
    std::uniform_real_distribution<double> share(0, 0.3);
    const double least = share(random);
    Wasteful strategy{least, least + share(random),
                      static_cast<Bytes>(kBudget * (0.5 + share(random))), random};
    Bracket bracket(kBudget);
    Bytes too_much = kBudget + 1, enough = -1;
    std::optional<Bytes> asked = kBudget;
    int attempts = 0;
    for (; asked; ++attempts) {
      ASSERT_LT(attempts, 64);
      ASSERT_LT(*asked, too_much);
      ASSERT_GT(*asked, enough);
      const Bytes arena = strategy.arena_of(*asked);
      if (*asked < strategy.smallest_peak) {
        enough = *asked;
        asked = bracket.after_infeasible(*asked);
      } else if (arena > kBudget) {
        too_much = *asked;
        asked = bracket.after_too_large(*asked, arena - kBudget, enough >= strategy.smallest_peak);
      } else {
        enough = *asked;
        asked = bracket.after_fitting(*asked);
      }
    }
  }
}

}  // namespace
}  // namespace lowtide::planner
