#pragma once

#include <vector>

#include "strategy/stage_graph.h"

namespace lowtide {

/// Which stages must have run before which, in any order that computes the same, to the last bit:
/// what makes a value before what reads it, also through views; reads and writes of a resident
/// tensor as they are; ops that draw random numbers, or that may run only once, one after the other
/// as they are. The stage that stands for the end takes no part.
class Precedence {
 public:
  Precedence(const Graph& graph, const StageGraph& stages);
  /// Per stage: those that come before it, earlier stages all of them.
  explicit Precedence(std::vector<std::vector<int>> before);

  const std::vector<int>& before(int stage) const { return before_[stage]; }
  const std::vector<int>& after(int stage) const { return after_[stage]; }

 private:
  std::vector<std::vector<int>> before_, after_;  // ascending, each once
};

}  // namespace lowtide
