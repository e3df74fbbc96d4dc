#include "base/time_share.h"

#include <gtest/gtest.h>

namespace lowtide {
namespace {

TEST(TimeShare, HasNoLimitWhereTheWholeHasNone) {
  EXPECT_EQ(share_of_seconds(Control(), 0.5), 0);
  EXPECT_EQ(share_of_time(Control(), 0.5).limit_seconds(), 0);
}

TEST(TimeShare, IsPartOfWhatIsLeft) {
  const Control whole(1000);
  EXPECT_LE(share_of_seconds(whole, 0.5), 500);
  EXPECT_GT(share_of_seconds(whole, 0.5), 400);
  EXPECT_LE(share_of_seconds(whole, 0.5, 0.1), 50);
}

TEST(TimeShare, IsNeverNoneWhenTimeIsUp) {
  const Control whole(1e-9);
  while (!whole.should_stop()) continue;
  EXPECT_GT(share_of_seconds(whole, 0.5), 0);
}

TEST(TimeShare, ReportsToTheSameListener) {
  std::string heard;
  const Control whole(0, [&](const std::string& message) { heard = message; });
  share_of_time(whole, 0.5).report("here");
  EXPECT_EQ(heard, "here");
}

}  // namespace
}  // namespace lowtide
