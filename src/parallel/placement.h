#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "estimate/estimate.h"
#include "parallel/schedule.h"
#include "parallel/units/unit.h"

namespace lowtide::parallel {

/// What data-parallel ranks divide among them, as the stages of ZeRO (Rajbhandari et al., ZeRO:
/// Memory optimizations toward training trillion parameter models, SC 2020): 0 nothing, 1 the
/// optimizer's state, 2 gradients too, 3 parameters too.
struct Sharding {
  int stage = 0;
  /// Only the data-parallel ranks of one node divide it, and nodes have copies (hybrid sharding:
  /// Zhao et al., PyTorch FSDP, VLDB 2023).
  bool within_node = false;
  bool operator==(const Sharding&) const = default;
};

/// Where the parts of a model are. Rank numbers count tensor-parallel ranks first, then
/// data-parallel ranks, then stages, so that what talks most is nearest.
struct Placement {
  int data = 1, tensor = 1;  ///< ranks
  bool sequence_parallel = false;
  Pipeline pipeline = {};
  std::int64_t micro_batch = 1;  ///< samples
  Sharding sharding = {};

  int ranks_of_stage() const { return data * tensor; }
  int ranks() const { return data * tensor * pipeline.stages; }
};

/// A run of units on one rank: one, or one for each chunk.
struct UnitRange {
  int first = 0, last = 0;
  bool operator==(const UnitRange&) const = default;
};

/// The plan that so many units of one kind have.
struct ChosenPlan {
  int kind = 0;
  int units = 0;
  UnitPlan plan = {};
};

/// Ranks of one stage and one kind of nodes: they are alike.
struct RankReport {
  int stage = 0;
  int first_rank = 0, ranks = 0;
  int node_kind = 0;
  std::vector<UnitRange> units = {};
  std::vector<ChosenPlan> plans = {};
  std::int64_t in_flight = 0;               ///< micro-batches, of a chunk each
  std::vector<estimate::Part> memory = {};  ///< adds up to memory_bytes
  Bytes memory_bytes = 0;
  Bytes available_bytes = 0;
  /// Of a step; they add up to its seconds. Compute has reruns; communication is that for which
  /// compute waits; waiting is the bubble.
  double compute_seconds = 0, communication_seconds = 0, update_seconds = 0, waiting_seconds = 0;
  double rerun_seconds = 0;  ///< of compute_seconds and communication_seconds
};

/// A placement with all its plans.
struct PlacementReport {
  Placement placement = {};
  double step_seconds = 0;
  double flop_utilisation = 0;  ///< of the data sheet's rate: model FLOP utilisation
  Bytes most_memory_bytes = 0;  ///< of any rank
  std::vector<RankReport> ranks = {};
};

/// "data 8 x tensor 8 x pipeline 16, 1f1b, ..." in words.
std::string describe(const Placement& placement);

}  // namespace lowtide::parallel
