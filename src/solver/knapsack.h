#pragma once

#include <vector>

#include "base/bytes.h"

namespace lowtide::solver {

/// The 0-1 knapsack by dynamic programming, for every capacity at once. Bytes are rounded up to
/// slots; all items together need at most `slots` plus one for each item. O(items x (slots +
/// items)) time, and as many bits of memory.
class Knapsack {
 public:
  struct Item {
    double worth = 0;
    Bytes bytes = 0;
  };

  Knapsack(const std::vector<Item>& items, int slots);

  /// The slots of all items together.
  int slots() const { return slots_; }
  /// The most valuable items that fit in this many slots.
  std::vector<bool> chosen(int slots) const;

 private:
  std::vector<int> weights_;
  int slots_ = 0;
  std::vector<std::vector<bool>> taken_;  // per item, per number of slots
};

}  // namespace lowtide::solver
