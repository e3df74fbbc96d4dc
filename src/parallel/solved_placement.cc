#include "parallel/solved_placement.h"

#include <algorithm>
#include <limits>

#include "parallel/placement_space.h"

namespace lowtide::parallel {
namespace {

/// Chunk c of stage s has the units of part c x stages + s.
std::vector<UnitRanges> chunked(const LayeredModel& model, const Pipeline& pipeline) {
  const UnitRange repeated = *repeated_units(model);
  const int parts = pipeline.stages * pipeline.chunks;
  const int each = (repeated.last - repeated.first + 1) / parts;
  std::vector<UnitRanges> stages(static_cast<std::size_t>(pipeline.stages));
  for (int part = 0; part < parts; ++part) {
    const int first = repeated.first + part * each;
    stages[static_cast<std::size_t>(part % pipeline.stages)].push_back(
        {part == 0 ? 0 : first,
         part == parts - 1 ? static_cast<int>(model.sequence.size()) - 1 : first + each - 1});
  }
  return stages;
}

std::vector<UnitRanges> divided_at(const std::vector<int>& first, int units) {
  std::vector<UnitRanges> stages;
  for (std::size_t s = 0; s < first.size(); ++s) {
    const int end = s + 1 < first.size() ? first[s + 1] : units;
    stages.push_back({{first[s], end - 1}});
  }
  return stages;
}

std::optional<SolvedPlacement> solve_chunked(const LayeredModel& model, const StageCosts& costs,
                                             const Pipeline& pipeline, double less_than) {
  SolvedPlacement solved{.stages = chunked(model, pipeline)};
  std::vector<StageSeconds> seconds;
  for (int stage = 0; stage < pipeline.stages; ++stage) {
    const std::optional<StageSeconds> own =
        costs.seconds(stage, solved.stages[static_cast<std::size_t>(stage)]);
    if (!own) return std::nullopt;
    seconds.push_back(*own);
  }
  solved.seconds = step_seconds(pipeline, seconds);
  if (solved.seconds >= less_than) return std::nullopt;
  return solved;
}

}  // namespace

KnownPlans::KnownPlans(const LayeredModel& model, const Cluster& cluster)
    : model_(model), cluster_(cluster) {}

const std::vector<StagePlans*>& KnownPlans::of(const Placement& placement) {
  Plans& known = plans_[{placement.tensor, placement.sequence_parallel, placement.micro_batch}];
  if (!known.all.empty()) return known.all;
  for (const NodeKind& kind : cluster_.kinds) {
    known.owned.push_back(std::make_unique<StagePlans>(
        model_.units({.split = {placement.tensor, placement.sequence_parallel},
                      .micro_batch = placement.micro_batch,
                      .cluster = cluster_,
                      .device = kind.device}),
        model_.sequence));
  }
  for (const auto& plans : known.owned) known.all.push_back(plans.get());
  return known.all;
}

double optimistic_seconds(const Placement& placement, const std::vector<StagePlans*>& plans) {
  double all = std::numeric_limits<double>::infinity();
  for (const StagePlans* kind : plans) {
    const int last = kind->num_units() - 1;
    all = std::min(all, kind->forward_seconds(0, last) + kind->least_backward_seconds(0, last));
  }
  const StepWeights weights = step_weights(placement.pipeline);
  return weights.slowest * all / placement.pipeline.stages + weights.sum * all;
}

std::optional<SolvedPlacement> solve(const LayeredModel& model, const Cluster& cluster,
                                     const Placement& placement,
                                     const std::vector<StagePlans*>& plans, double less_than) {
  const StageCosts costs(cluster, placement, plans);
  const Pipeline& pipeline = placement.pipeline;
  if (pipeline.schedule == Schedule::interleaved) {
    return solve_chunked(model, costs, pipeline, less_than);
  }
  const int units = static_cast<int>(model.sequence.size());
  const std::optional<Division> division =
      best_division({.units = units,
                     .pipeline = pipeline,
                     .cost = [&](int stage, int first,
                                 int last) { return costs.seconds(stage, {{first, last}}); },
                     .less_than = less_than});
  if (!division) return std::nullopt;
  return SolvedPlacement{divided_at(division->first, units), division->seconds};
}

Bytes smallest_memory(const LayeredModel& model, const Cluster& cluster, const Placement& placement,
                      const std::vector<StagePlans*>& plans) {
  const StageCosts costs(cluster, placement, plans);
  const Pipeline& pipeline = placement.pipeline;
  if (pipeline.schedule == Schedule::interleaved) {
    const std::vector<UnitRanges> stages = chunked(model, pipeline);
    Bytes most = 0;
    for (int stage = 0; stage < pipeline.stages; ++stage) {
      most = std::max(most, costs.least_bytes(stage, stages[static_cast<std::size_t>(stage)]));
    }
    return most;
  }
  return smallest_division(static_cast<int>(model.sequence.size()), pipeline.stages,
                           [&](int stage, int first, int last) {
                             return costs.least_bytes(stage, {{first, last}});
                           })
      .bytes;
}

PlacementReport report(const LayeredModel& model, const Cluster& cluster,
                       const Placement& placement, const std::vector<StagePlans*>& plans,
                       const SolvedPlacement& solved) {
  const StageCosts costs(cluster, placement, plans);
  PlacementReport report{.placement = placement, .step_seconds = solved.seconds};
  for (std::size_t stage = 0; stage < solved.stages.size(); ++stage) {
    for (RankReport& ranks : costs.report(static_cast<int>(stage), solved.stages[stage])) {
      const double busy =
          ranks.compute_seconds + ranks.communication_seconds + ranks.update_seconds;
      ranks.waiting_seconds = std::max(0.0, solved.seconds - busy);  // less is rounding
      report.most_memory_bytes = std::max(report.most_memory_bytes, ranks.memory_bytes);
      report.ranks.push_back(std::move(ranks));
    }
  }
  const double samples = static_cast<double>(placement.pipeline.micro_batches) *
                         static_cast<double>(placement.micro_batch) * placement.data;
  report.flop_utilisation = samples * model.flops_per_sample / solved.seconds /
                            peak_flops_per_second(cluster, model.compute);
  return report;
}

double peak_flops_per_second(const Cluster& cluster, DType dtype) {
  double rate = 0;
  for (const NodeKind& kind : cluster.kinds) {
    rate += kind.device.flops(dtype) / kind.peak_share * kind.nodes * cluster.devices_per_node;
  }
  return rate;
}

double reached_flops_per_second(const Cluster& cluster, DType dtype) {
  double rate = 0;
  for (const NodeKind& kind : cluster.kinds) {
    rate += kind.device.flops(dtype) * kind.nodes * cluster.devices_per_node;
  }
  return rate;
}

}  // namespace lowtide::parallel
