#pragma once

#include <cstdint>
#include <vector>

#include "remat/stage_graph.h"

namespace lowtide::ordering {

/// The set of orders that a precedence describes.
enum class Orders : std::uint8_t {
  same_bits,  ///< orders that compute the same to the last bit
  valid       ///< orders that the rules of plans allow (docs/reference/plan-format.md)
};

/// Which stages must run before which: the producer of a value before its readers, also through
/// views; reads and writes of a resident tensor in the graph's order. For the same bits, ops that
/// draw random numbers, or that may run only once and write no resident tensor, which would be the
/// reason, also keep the graph's order among each other, and ops with any effect stay on their side
/// of the boundary (graph/boundary.h). The stage that stands for the end takes no part.
class Precedence {
 public:
  Precedence(const Graph& graph, const remat::StageGraph& stages,
             Orders orders = Orders::same_bits);
  /// `before[s]`: the stages that come before stage s.
  explicit Precedence(std::vector<std::vector<int>> before);

  const std::vector<int>& before(int stage) const { return before_[stage]; }
  const std::vector<int>& after(int stage) const { return after_[stage]; }
  /// The stages that write a resident tensor which the stage reads: it may run again before the
  /// first of them only. Empty for each stage where `before` was given.
  const std::vector<int>& overwriters(int stage) const { return overwriters_[stage]; }
  /// Per stage: whether it comes before (after) the given one, directly or through others.
  std::vector<bool> all_before(int stage) const { return reached(stage, before_); }
  std::vector<bool> all_after(int stage) const { return reached(stage, after_); }

 private:
  static std::vector<bool> reached(int stage, const std::vector<std::vector<int>>& next);

  std::vector<std::vector<int>> before_, after_;  // ascending, each once
  std::vector<std::vector<int>> overwriters_;
};

}  // namespace lowtide::ordering
