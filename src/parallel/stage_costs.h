#pragma once

#include <optional>
#include <vector>

#include "parallel/placement.h"
#include "parallel/stage_division.h"
#include "parallel/stage_plans.h"

namespace lowtide::parallel {

/// Bytes of a rank beside activations.
struct StageState {
  StateBytes state;    ///< as far as this rank has it
  Bytes gathered = 0;  ///< parameters and gradients of units that ranks divide, while in use
  Bytes messages = 0;  ///< between stages

  Bytes all() const { return state.all() + gathered + messages; }
};

/// A collective operation that runs beside compute. That of the first unit has nothing to hide
/// behind.
struct Hidden {
  double all = 0, first = 0;  ///< seconds

  /// The seconds of compute and communication, begun together.
  double beside(double compute) const;
};

/// The communication of a stage, in seconds.
struct StageCommunication {
  double send_forward = 0, send_backward = 0;  ///< of a micro-batch, to other stages
  Hidden forward, backward;                    ///< of a micro-batch: sharded parameters, gradients
  Hidden gradients, parameters;                ///< of a step: after the last micro-batch
  double tied = 0;                             ///< the same, of what two stages share
};

/// The ranks that a stage's ranks talk to.
struct StageNeighbours {
  Group shard;   ///< that divide the state among them
  Group copies;  ///< with the same part of the state
  Link next;     ///< to the stage after it; from the last one to the first
};

/// A stage's units on one rank: a range, or one for each chunk.
using UnitRanges = std::vector<UnitRange>;

/// What stages of a placement hold and how long they take, whatever units they have.
class StageCosts {
 public:
  /// `plans`: by kind of nodes, for the placement's widths and micro-batch. All arguments must
  /// outlive the object.
  StageCosts(const Cluster& cluster, const Placement& placement,
             const std::vector<StagePlans*>& plans);

  StageState state(const UnitRanges& ranges) const;
  StageCommunication communication(int stage, const UnitRanges& ranges) const;
  /// On the slowest of the stage's kinds of nodes, each with the fastest plan that fits it; nothing
  /// where one has none.
  std::optional<StageSeconds> seconds(int stage, const UnitRanges& ranges) const;
  /// The memory that each rank of the stage needs at least.
  Bytes least_bytes(int stage, const UnitRanges& ranges) const;
  /// One for each kind of nodes, as seconds() has plans; waiting_seconds are left 0. The stage must
  /// fit.
  std::vector<RankReport> report(int stage, const UnitRanges& ranges) const;

 private:
  /// Plans of a rank, and what follows from them.
  struct RankPlan {
    Bytes held_bytes = 0;  ///< of all micro-batches in flight
    Bytes working_bytes = 0;
    double backward_seconds = 0;
    std::vector<ChosenPlan> chosen = {};
  };

  StageNeighbours neighbours_of(int stage) const;
  std::vector<int> kinds_of(int stage) const;
  StagePlans& plans(int kind) const { return *plans_[static_cast<std::size_t>(kind)]; }
  std::optional<RankPlan> fastest(int kind, int stage, const UnitRanges& ranges, Bytes available,
                                  bool with_plans) const;
  std::optional<RankPlan> fastest_of_chunks(int kind, int stage, const UnitRanges& ranges,
                                            Bytes available, bool with_plans) const;
  StageSeconds seconds_with(int kind, const UnitRanges& ranges, const StageState& state,
                            const StageCommunication& communication, double backward_seconds) const;
  double update_seconds(int kind, const StateBytes& state) const;
  RankReport report_of_kind(int kind, int stage, const UnitRanges& ranges) const;
  int shard_ranks() const;
  int num_units() const { return plans_.front()->num_units(); }

  const Cluster& cluster_;
  const Placement& placement_;
  const std::vector<StagePlans*>& plans_;
  std::vector<StageNeighbours> neighbours_;  // per stage
};

}  // namespace lowtide::parallel
