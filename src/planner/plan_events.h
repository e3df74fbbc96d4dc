#pragma once

#include <optional>
#include <span>
#include <vector>

#include "graph/graph.h"
#include "remat/event_plan.h"
#include "remat/stage_graph.h"

namespace lowtide::planner {

/// The reruns of a plan as events (remat/stage_graph.h), of stages in the order in which the plan
/// first runs their ops.
class PlanEvents {
 public:
  /// Of these executions of the graph; nothing where events cannot say what they run again.
  static std::optional<PlanEvents> of(const Graph& graph, std::span<const OpId> executions);

  const remat::StageGraph& stages() const { return stages_; }
  const std::vector<remat::Event>& reruns() const { return reruns_; }
  /// Of the graph, with other reruns.
  std::vector<OpId> executions_with(std::span<const remat::Event> reruns) const;

 private:
  PlanEvents(remat::StageGraph stages, std::vector<OpId> order, std::vector<remat::Event> reruns);

  remat::StageGraph stages_;
  /// From the ops of the stages to those of the graph; empty where these are the same.
  std::vector<OpId> order_;
  std::vector<remat::Event> reruns_;
};

}  // namespace lowtide::planner
