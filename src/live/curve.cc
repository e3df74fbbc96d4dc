#include "live/curve.h"

#include <algorithm>
#include <cmath>

namespace lowtide::live {

void Curve::add(double seconds, double value) {
  if (in_last_ == 0) {
    seconds_.push_back(seconds);
    values_.push_back(value);
  } else {
    values_.back() = merged(values_.back(), static_cast<double>(in_last_), value, 1);
  }
  if (++in_last_ < per_point_) return;
  in_last_ = 0;
  if (values_.size() == kMostPoints) halve();
}

double Curve::merged(double a, double weight_a, double b, double weight_b) const {
  if (merge_ == Merge::highest) return std::max(a, b);
  return (a * weight_a + b * weight_b) / (weight_a + weight_b);
}

void Curve::halve() {
  const std::size_t half = values_.size() / 2;
  for (std::size_t i = 0; i < half; ++i) {
    seconds_[i] = seconds_[2 * i];
    values_[i] = merged(values_[2 * i], 1, values_[2 * i + 1], 1);
  }
  seconds_.resize(half);
  values_.resize(half);
  per_point_ *= 2;
}

nlohmann::json Curve::document() const {
  nlohmann::json values = nlohmann::json::array();
  for (const double value : values_) {
    values.push_back(std::isfinite(value) ? nlohmann::json(value) : nlohmann::json());
  }
  return {{"seconds", seconds_}, {"values", std::move(values)}, {"per_point", per_point_}};
}

}  // namespace lowtide::live
