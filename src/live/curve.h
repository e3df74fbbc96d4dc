#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <vector>

namespace lowtide::live {

/// A curve that is added to without end, in memory that has one: of a longer one, a point stands
/// for several values.
class Curve {
 public:
  /// Of the values of points that become one.
  enum class Merge : std::uint8_t { highest, mean };

  /// More points than a picture has columns would not be seen.
  static constexpr std::size_t kMostPoints = 1000;

  explicit Curve(Merge merge) : merge_(merge) {}

  void add(double seconds, double value);
  /// `seconds` and `values` of the points, null for what is no number, and `per_point`: how many
  /// values a point stands for; the last may stand for fewer.
  nlohmann::json document() const;

 private:
  double merged(double a, double weight_a, double b, double weight_b) const;
  void halve();

  Merge merge_;
  std::vector<double> seconds_, values_;
  std::int64_t per_point_ = 1;
  std::int64_t in_last_ = 0;  ///< values that the last point stands for
};

}  // namespace lowtide::live
