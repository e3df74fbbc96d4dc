#pragma once

#include <span>
#include <vector>

namespace lowtide::certify {

/// Prices per stage, each rounded down to a multiple of one power of two, so that sums over any
/// stages are exact. Any prices prove a bound; these agree with the given ones to 15 digits.
class PriceSums {
 public:
  /// Prices are not negative, and their sum is finite.
  explicit PriceSums(std::span<const double> prices);

  double at(int stage) const { return over(stage, stage + 1); }
  /// Over the stages [begin, end).
  double over(int begin, int end) const { return before_[end] - before_[begin]; }

 private:
  std::vector<double> before_;
};

}  // namespace lowtide::certify
