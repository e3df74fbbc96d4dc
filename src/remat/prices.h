#pragma once

#include <vector>

namespace lowtide::remat {

/// Prices per byte of memory while each stage's op first runs, with their prefix sums.
class Prices {
 public:
  explicit Prices(int stages) : price_(stages), sum_(stages + 1) {}
  explicit Prices(std::vector<double> price);

  /// The price of one byte over the stages [begin, end).
  double over(int begin, int end) const { return sum_[end] - sum_[begin]; }
  const std::vector<double>& each() const { return price_; }
  Prices times(double factor) const;

 private:
  std::vector<double> price_;
  std::vector<double> sum_;
};

}  // namespace lowtide::remat
