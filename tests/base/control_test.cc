#include "base/control.h"

#include <gtest/gtest.h>

#include <limits>

#include "base/time_share.h"

namespace lowtide {
namespace {

TEST(Control, CountedWorkUsesUpTheLimit) {
  const Control control(1000);
  control.count(250e9);
  EXPECT_DOUBLE_EQ(control.used_seconds(), 250);  // the clock starts at a tenth of the limit
  EXPECT_DOUBLE_EQ(control.used_share(), 0.25);
  EXPECT_DOUBLE_EQ(control.left_seconds(), 750);
  EXPECT_FALSE(control.should_stop());
  control.count(750e9);
  EXPECT_TRUE(control.should_stop());
  EXPECT_FALSE(control.is_behind());
}

TEST(Control, WorkOfAPartUsesUpTheWhole) {
  const Control whole(1000);
  whole.count(100e9);
  const Control part = share_of_time(whole, 0.1);
  EXPECT_DOUBLE_EQ(part.limit_seconds(), 90);
  EXPECT_DOUBLE_EQ(part.used_seconds(), 0);
  part.count(90e9);
  EXPECT_TRUE(part.should_stop());
  EXPECT_FALSE(whole.should_stop());
  EXPECT_DOUBLE_EQ(whole.used_seconds(), 190);
}

TEST(Control, TheClockEndsWorkThatNobodyCounts) {
  const Control control(1e-6);
  while (!control.should_stop()) continue;
  EXPECT_TRUE(control.is_behind());
}

TEST(Control, ByWorkAloneTheClockEndsNothing) {
  const Control control = Control::by_work(1e-9);
  const Control part(control, 1e-9);
  while (control.elapsed_seconds() < 1e-6) continue;
  EXPECT_FALSE(control.should_stop());
  EXPECT_FALSE(part.should_stop());
  control.count(1);
  EXPECT_TRUE(part.should_stop());
  EXPECT_FALSE(control.is_behind());
}

TEST(Control, ARenewedLimitIsUnusedAndOfTheSameKind) {
  const Control spent = Control::by_work(1e-9);
  spent.count(1);
  const Control renewed = spent.renewed();
  while (renewed.elapsed_seconds() < 1e-6) continue;
  EXPECT_TRUE(spent.should_stop());
  EXPECT_FALSE(renewed.should_stop());
  renewed.count(1);
  EXPECT_TRUE(renewed.should_stop());
  EXPECT_EQ(Control().renewed().limit_seconds(), 0);
}

TEST(Control, TheClockIsLeftAsLongAsItEndsTheLimitByItself) {
  const Control whole(1000);
  EXPECT_NEAR(whole.clock_left_seconds(), 1000, 1);
  whole.count(100e9);
  // A tenth of the limit passes before the clock starts, and it reaches 1000 s at 1000 s.
  const Control part(whole, 200);
  EXPECT_NEAR(part.clock_left_seconds(), 100 + 0.9 * 300, 1);
  part.count(50e9);
  EXPECT_NEAR(part.clock_left_seconds(), 100 + 0.9 * 300, 1);
}

TEST(Control, WithoutAClockOrALimitTheClockIsLeftForever) {
  EXPECT_EQ(Control().clock_left_seconds(), std::numeric_limits<double>::infinity());
  EXPECT_EQ(Control::by_work(1).clock_left_seconds(), std::numeric_limits<double>::infinity());
}

TEST(Control, WithoutALimitNothingIsUsedUp) {
  const Control control;
  control.count(1e18);
  EXPECT_EQ(control.used_share(), 0);
  EXPECT_FALSE(control.should_stop());
}

}  // namespace
}  // namespace lowtide
