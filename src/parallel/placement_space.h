#pragma once

#include <optional>
#include <vector>

#include "parallel/placement.h"

namespace lowtide::parallel {

/// Which placements are considered. What is not given may be anything.
struct PlacementLimits {
  std::int64_t global_batch = 1;  ///< samples of a step, on all ranks together
  std::optional<int> data, tensor, pipeline;
  std::optional<std::int64_t> micro_batch;
  std::int64_t largest_micro_batch = 16;
  std::optional<Schedule> schedule;
  std::optional<Sharding> sharding;
  bool sequence_parallel = true;  ///< wherever tensor-parallel ranks divide the tokens evenly
  std::int64_t sequence = 1;      ///< tokens of a sample
};

/// All placements of a model on all ranks of a cluster:
/// - data x tensor x pipeline = the ranks; tensor divides the devices of a node and what the model
///   allows; the pipeline has no more stages than the model has units;
/// - micro-batches of equal size, which divide the global batch;
/// - 1F1B, and interleaved schedules where each rank gets equally many units of the repeated kind.
///   GPipe holds more than 1F1B and is never faster, so that it is there where it is asked for;
/// - ZeRO stages 0 to 3 over all data-parallel ranks, and 1 to 3 over those of a node where several
///   nodes have whole copies.
/// Throws InputError where the limits leave none, with the limit to change.
std::vector<Placement> all_placements(const LayeredModel& model, const Cluster& cluster,
                                      const PlacementLimits& limits);

/// The units of a model that each chunk of an interleaved schedule gets equally many of: without
/// the first and the last one where these are of other kinds. Nothing where the others differ.
std::optional<UnitRange> repeated_units(const LayeredModel& model);

}  // namespace lowtide::parallel
