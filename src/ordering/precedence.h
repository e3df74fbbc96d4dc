#pragma once

#include <cstdint>
#include <vector>

#include "remat/stage_graph.h"

namespace lowtide::ordering {

/// Which orders of first runs are meant.
enum class Orders : std::uint8_t {
  same_bits,  ///< that compute the same to the last bit
  valid       ///< that the rules of plans allow (docs/reference/plan-format.md)
};

/// Which stages must have run before which: what makes a value before what reads it, also through
/// views; reads and writes of a resident tensor as they are. To compute the same bits, ops that
/// draw random numbers, or that may run only once, run one after the other as they are, too. The
/// stage that stands for the end takes no part.
class Precedence {
 public:
  Precedence(const Graph& graph, const remat::StageGraph& stages,
             Orders orders = Orders::same_bits);
  /// Per stage: those that come before it.
  explicit Precedence(std::vector<std::vector<int>> before);

  const std::vector<int>& before(int stage) const { return before_[stage]; }
  const std::vector<int>& after(int stage) const { return after_[stage]; }
  /// Per stage: whether it comes before that one, or after it, also through others.
  std::vector<bool> all_before(int stage) const { return reached(stage, before_); }
  std::vector<bool> all_after(int stage) const { return reached(stage, after_); }

 private:
  static std::vector<bool> reached(int stage, const std::vector<std::vector<int>>& next);

  std::vector<std::vector<int>> before_, after_;  // ascending, each once
};

}  // namespace lowtide::ordering
