#include "report/sparkline.h"

#include <gtest/gtest.h>

namespace lowtide::report {
namespace {

MemoryCurve curve(std::vector<double> begin, double end, std::vector<Bytes> memory) {
  return {.label = "", .begin = std::move(begin), .end = end, .memory = std::move(memory),
          .budget_bytes = std::nullopt};
}

TEST(Sparkline, IsAsHighAsTheShareInUse) {
  const MemoryCurve rising = curve({0, 1, 2, 3}, 4, {0, 40, 79, 80});
  EXPECT_EQ(sparkline(rising, 80, 4, Spark::ascii), "_=##");
  EXPECT_EQ(sparkline(rising, 80, 4, Spark::blocks), "\u2581\u2585\u2588\u2588");
}

TEST(Sparkline, ShowsTheHighestOfEachColumn) {
  const MemoryCurve spike = curve({0, 1, 1.1, 5}, 10, {10, 80, 10, 10});
  EXPECT_EQ(sparkline(spike, 80, 2, Spark::ascii), "#.");
}

TEST(Sparkline, AnActionFillsAllColumnsOfItsTime) {
  const MemoryCurve lasting = curve({0, 9}, 10, {80, 0});
  EXPECT_EQ(sparkline(lasting, 80, 10, Spark::ascii), "#########_");
}

TEST(Sparkline, MoreThanFullIsFull) {
  EXPECT_EQ(sparkline(curve({0}, 1, {200}), 80, 3, Spark::ascii), "###");
}

TEST(Sparkline, OfNothingIsEmpty) {
  EXPECT_EQ(sparkline(curve({}, 0, {}), 80, 4, Spark::ascii), "");
  EXPECT_EQ(sparkline(curve({0}, 1, {1}), 0, 4, Spark::ascii), "");
  EXPECT_EQ(sparkline(curve({0}, 1, {1}), 80, 0, Spark::ascii), "");
}

}  // namespace
}  // namespace lowtide::report
