#include "live/curve.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

namespace lowtide::live {
namespace {

std::vector<double> numbers(int count) {
  std::vector<double> values;
  for (int i = 0; i < count; ++i) values.push_back((i * 7919) % 1009);
  return values;
}

/// Each point is what its values give, however many were added.
TEST(Curve, PointsStandForTheirValues) {
  for (const int count : {1, 2, 999, 1000, 1001, 1500, 2001, 12345}) {
    const std::vector<double> values = numbers(count);
    Curve highest(Curve::Merge::highest), mean(Curve::Merge::mean);
    for (int i = 0; i < count; ++i) {
      highest.add(i, values[static_cast<std::size_t>(i)]);
      mean.add(i, values[static_cast<std::size_t>(i)]);
    }
    const nlohmann::json of_highest = highest.document(), of_mean = mean.document();
    const auto per_point = of_mean["per_point"].get<std::size_t>();
    const auto points = of_mean["values"].size();
    EXPECT_LE(points, Curve::kMostPoints);
    EXPECT_EQ(points, (values.size() + per_point - 1) / per_point);
    for (std::size_t point = 0; point < points; ++point) {
      const auto begin = values.begin() + static_cast<std::ptrdiff_t>(point * per_point);
      const auto end = begin + std::min<std::ptrdiff_t>(static_cast<std::ptrdiff_t>(per_point),
                                                        values.end() - begin);
      EXPECT_EQ(of_highest["values"][point].get<double>(), *std::max_element(begin, end));
      EXPECT_NEAR(of_mean["values"][point].get<double>(),
                  std::accumulate(begin, end, 0.0) / static_cast<double>(end - begin), 1e-9);
      EXPECT_EQ(of_mean["seconds"][point].get<double>(), static_cast<double>(point * per_point));
    }
  }
}

TEST(Curve, WhatIsNoNumberIsNull) {
  Curve loss(Curve::Merge::mean);
  loss.add(0, 1.5);
  loss.add(1, std::numeric_limits<double>::quiet_NaN());
  loss.add(2, std::numeric_limits<double>::infinity());
  EXPECT_EQ(loss.document()["values"].dump(), "[1.5,null,null]");
}

}  // namespace
}  // namespace lowtide::live
