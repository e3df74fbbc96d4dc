#pragma once

#include <optional>
#include <span>
#include <vector>

#include "remat/event_plan.h"

namespace lowtide::strategy::search {

/// A plan between a cheaper plan and one that needs less memory (the smaller): ops of the first
/// stages run again as in the smaller plan, those of all later stages as in the cheaper one. Two
/// solutions of a Lagrangian relaxation at neighbouring prices differ a lot where many ops are
/// alike; the cost of plans in between is about proportional.
class Mixture {
 public:
  Mixture(const remat::StageGraph& graph, std::vector<remat::Event> cheaper,
          std::vector<remat::Event> smaller);

  /// The mixture within the limit with the fewest ops of the smaller plan that a bisection finds,
  /// without reruns that nothing reads; nothing when the smaller plan is above the limit. O(log
  /// stages) times the events that differ.
  std::optional<std::vector<remat::Event>> within(Bytes limit);

 private:
  void move_to(int stage);
  void exchange(std::span<const remat::Event> out, std::span<const remat::Event> in);

  const remat::StageGraph& graph_;
  std::vector<remat::Event> cheaper_, smaller_;  // by op; without common events
  remat::EventPlan plan_;
  int border_ = 0;  // ops of earlier stages are as in the smaller plan
};

}  // namespace lowtide::strategy::search
