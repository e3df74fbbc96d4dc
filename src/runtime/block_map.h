#pragma once

#include <vector>

#include "plan/plan.h"

namespace lowtide::runtime {

/// Where things lie in the block of an Executor, in bytes from its start:
///
///     | lead | residents | states of the generator | reserve | arena of the plan |
///
/// `lead` (less than 64 bytes, never used) brings the end of the residents to a multiple of 64.
/// Residents lie in increasing order of the power of two that divides their size, so that each is
/// aligned to that power (at most 64) without a gap: the block is no larger than what it holds.
struct BlockMap {
  Bytes lead = 0;
  std::vector<Bytes> residents;         ///< by tensor; -1 for what is not a resident storage
  std::vector<Bytes> generator_states;  ///< by op; -1 where none is kept
  Bytes reserve = 0;
  Bytes arena = 0;
  Bytes end = 0;
  std::vector<Bytes> cuts = {};  ///< ascending: where one section ends and the next begins
  /// The section in whose place results lie in the caller's memory until they are dropped
  /// (graph/handed_out.h); empty without any.
  Bytes late_begin = 0, late_end = 0;
};

/// Places residents, the generator states of random ops that the plan runs more than once, the
/// plan's arena and a reserve of so many bytes (a multiple of 64). The plan must carry a layout.
BlockMap map_block(const Graph& graph, const Plan& plan, Bytes generator_state_bytes,
                   Bytes reserve_bytes);

/// The same without residents and reserve, for a step whose residents are in the caller's memory,
/// with the sections of the plan's layout. What comes before the arena belongs to the first one, if
/// that is not the place of results.
BlockMap map_arena(const Graph& graph, const Plan& plan, Bytes generator_state_bytes);

}  // namespace lowtide::runtime
