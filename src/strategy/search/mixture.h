#pragma once

#include <optional>
#include <span>
#include <vector>

#include "remat/event_plan.h"

namespace lowtide::strategy::search {

/// Between two plans, one that is cheaper and one that needs less memory: ops of the first stages
/// run again as in the leaner one, those of all later stages as in the cheaper one. Two solutions
/// of a Lagrangian relaxation at prices next to each other differ a lot where many ops are alike;
/// what lies between them costs in proportion.
class Mixture {
 public:
  Mixture(const remat::StageGraph& graph, std::vector<remat::Event> cheaper,
          std::vector<remat::Event> leaner);

  /// The mixture with the fewest ops of the leaner plan that a bisection finds within the limit,
  /// without reruns that nothing reads; nothing when the leaner plan is above it. O(log stages)
  /// times the events that differ.
  std::optional<std::vector<remat::Event>> within(Bytes limit);

 private:
  void move_to(int stage);
  void exchange(std::span<const remat::Event> out, std::span<const remat::Event> in);

  const remat::StageGraph& graph_;
  std::vector<remat::Event> cheaper_, leaner_;  // by op; what both have is in neither
  remat::EventPlan plan_;
  int border_ = 0;  // ops of earlier stages are as in the leaner plan
};

}  // namespace lowtide::strategy::search
