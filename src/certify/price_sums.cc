#include "certify/price_sums.h"

#include <cmath>
#include <limits>
#include <numeric>

namespace lowtide::certify {

PriceSums::PriceSums(std::span<const double> prices) : before_(prices.size() + 1) {
  constexpr int kDigits = std::numeric_limits<double>::digits;
  const double total = std::accumulate(prices.begin(), prices.end(), 0.0);
  // Sums stay below 2^53 ticks with one binary digit to spare for the rounding of `total`.
  const double tick = total > 0 ? std::ldexp(1, std::ilogb(total) + 2 - kDigits) : 0;
  if (tick < std::numeric_limits<double>::min()) return;  // too small to matter: all are 0
  for (std::size_t t = 0; t < prices.size(); ++t) {
    before_[t + 1] = before_[t] + std::floor(prices[t] / tick) * tick;
  }
}

}  // namespace lowtide::certify
