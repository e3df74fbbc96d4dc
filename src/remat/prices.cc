#include "remat/prices.h"

#include <utility>

namespace lowtide::remat {

Prices::Prices(std::vector<double> price) : price_(std::move(price)), sum_(price_.size() + 1) {
  for (std::size_t i = 0; i < price_.size(); ++i) sum_[i + 1] = sum_[i] + price_[i];
}

Prices Prices::times(double factor) const {
  std::vector<double> scaled = price_;
  for (double& price : scaled) price *= factor;
  return Prices(std::move(scaled));
}

}  // namespace lowtide::remat
