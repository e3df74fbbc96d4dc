#pragma once

#include <vector>

#include "base/bytes.h"

namespace lowtide::solver {

/// The 0-1 knapsack by dynamic programming, for every capacity at once. Bytes are rounded up to
/// slots, of which all items together take `slots` and at most one more each. O(items x (slots +
/// items)) time, as many bits.
class Knapsack {
 public:
  struct Item {
    double worth = 0;
    Bytes bytes = 0;
  };

  Knapsack(const std::vector<Item>& items, int slots);

  /// What all items together take.
  int slots() const { return slots_; }
  /// The items that are worth most among those that fit in so many slots.
  std::vector<bool> chosen(int slots) const;

 private:
  std::vector<int> weights_;
  int slots_ = 0;
  std::vector<std::vector<bool>> taken_;  // per item, per number of slots
};

}  // namespace lowtide::solver
