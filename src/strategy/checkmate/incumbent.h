#pragma once

#include <optional>
#include <span>
#include <vector>

#include "remat/event_plan.h"
#include "strategy/strategy.h"

namespace lowtide::strategy::checkmate {

/// Replays each plan that a solver finds, and keeps the cheapest one within the budget. Outputs are
/// written in place where the graph allows it.
class Incumbent {
 public:
  /// Both must outlive this.
  Incumbent(const PlanRequest& request, const remat::StageGraph& stages)
      : request_(request), stages_(stages) {}

  /// Returns the plan's peak.
  Bytes offer(std::span<const remat::Event> events);

  /// A plan of a graph that needs no op exists, and runs none.
  bool exists() const { return exists_; }
  double cost() const { return cost_; }
  const std::vector<remat::Event>& events() const { return events_; }
  const std::vector<OpId>& executions() const { return executions_; }

 private:
  const PlanRequest& request_;
  const remat::StageGraph& stages_;
  std::vector<remat::Event> events_;
  std::vector<OpId> executions_;
  double cost_ = 0;
  bool exists_ = false;
};

}  // namespace lowtide::strategy::checkmate
