#pragma once

#include <map>
#include <memory>
#include <optional>
#include <tuple>
#include <vector>

#include "parallel/stage_costs.h"

namespace lowtide::parallel {

/// The plans of all stages for each way to divide a model, made when they are first asked for.
class KnownPlans {
 public:
  KnownPlans(const LayeredModel& model, const Cluster& cluster);

  /// By kind of nodes.
  const std::vector<StagePlans*>& of(const Placement& placement);

 private:
  struct Plans {
    std::vector<std::unique_ptr<StagePlans>> owned;
    std::vector<StagePlans*> all;
  };
  const LayeredModel& model_;
  const Cluster& cluster_;
  std::map<std::tuple<int, bool, std::int64_t>, Plans> plans_;
};

/// A placement whose units are divided among its stages.
struct SolvedPlacement {
  std::vector<UnitRanges> stages;
  double seconds = 0;
};

/// No division of the placement takes less, whatever the memory.
double optimistic_seconds(const Placement& placement, const std::vector<StagePlans*>& plans);

/// The fastest division that fits; nothing where none does in less than `less_than` seconds.
std::optional<SolvedPlacement> solve(const LayeredModel& model, const Cluster& cluster,
                                     const Placement& placement,
                                     const std::vector<StagePlans*>& plans, double less_than);

/// The memory of each rank with which the placement fits, and no less.
Bytes smallest_memory(const LayeredModel& model, const Cluster& cluster, const Placement& placement,
                      const std::vector<StagePlans*>& plans);

PlacementReport report(const LayeredModel& model, const Cluster& cluster,
                       const Placement& placement, const std::vector<StagePlans*>& plans,
                       const SolvedPlacement& solved);

/// Operations per second of all devices together, by their data sheets.
double peak_flops_per_second(const Cluster& cluster, DType dtype);
/// As they are reached.
double reached_flops_per_second(const Cluster& cluster, DType dtype);

}  // namespace lowtide::parallel
