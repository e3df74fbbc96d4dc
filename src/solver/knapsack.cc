#include "solver/knapsack.h"

#include <algorithm>

namespace lowtide::solver {

Knapsack::Knapsack(const std::vector<Item>& items, int slots) {
  Bytes total = 0;
  for (const Item& item : items) total += item.bytes;
  const Bytes unit = std::max<Bytes>(1, total / slots);
  for (const Item& item : items) {
    weights_.push_back(static_cast<int>((item.bytes + unit - 1) / unit));
    slots_ += weights_.back();
  }
  std::vector<double> best(slots_ + 1);
  for (std::size_t i = 0; i < items.size(); ++i) {
    std::vector<bool>& taken = taken_.emplace_back(slots_ + 1);
    for (int m = slots_; m >= weights_[i]; --m) {
      const double with = best[m - weights_[i]] + items[i].worth;
      if (with < best[m]) continue;
      best[m] = with;
      taken[m] = true;
    }
  }
}

std::vector<bool> Knapsack::chosen(int slots) const {
  std::vector<bool> result(weights_.size());
  for (std::size_t i = weights_.size(); i-- > 0;) {
    result[i] = taken_[i][slots];
    if (result[i]) slots -= weights_[i];
  }
  return result;
}

}  // namespace lowtide::solver
