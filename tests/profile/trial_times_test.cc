#include "profile/trial_times.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

namespace lowtide::profile {
namespace {

using Runs = std::vector<TrialRun>;

TEST(TrialTimes, AreTheMediansOfRunsThatWereNotInterrupted) {
  const Runs runs = {{{9, 1}, true}, {{3, 5}}, {{1, 6}}, {{2, 4}}, {{50, 0}, true}};
  EXPECT_EQ(count_uninterrupted(runs), 3);
  EXPECT_EQ(usual_times(runs).work_seconds, 2);
  EXPECT_EQ(usual_times(runs).launch_seconds, 5);
}

TEST(TrialTimes, AreTheLeastWhereAllWereInterrupted) {
  const Runs runs = {{{40, 3}, true}, {{7, 2}, true}, {{44, 9}, true}};
  EXPECT_EQ(count_uninterrupted(runs), 0);
  EXPECT_EQ(usual_times(runs).work_seconds, 7);
  EXPECT_EQ(usual_times(runs).launch_seconds, 2);
}

/// Others' work makes some runs far longer; as long as one is left alone, that has no effect.
TEST(TrialTimes, OtherWorkDoesNotChangeThem) {
  std::mt19937 random(1);
  std::uniform_real_distribution<double> usual(1.0, 1.1), longer(1.0, 2000.0);
  for (int i = 0; i < 200; ++i) {
    Runs runs(1 + random() % 9);
    for (TrialRun& run : runs) {
      run.was_interrupted = random() % 2 != 0;
      run.times.work_seconds = usual(random) * (run.was_interrupted ? longer(random) : 1.0);
    }
    runs.front() = {{usual(random), 0}, false};
    EXPECT_LT(usual_times(runs).work_seconds, 1.1);
  }
}

}  // namespace
}  // namespace lowtide::profile
