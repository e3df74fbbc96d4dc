#pragma once

#include <cstdint>
#include <vector>

#include "device/device.h"
#include "plan/plan.h"

namespace lowtide::runtime {

/// The layout of an Executor's block, in bytes from its start:
///
///     | lead | residents | states of the generator | reserve | arena of the plan |
///
/// `lead` (never used) brings the end of the residents to a multiple of the graph's alignment, and
/// the arena to one of kCopyAlignment where values move. There is none without residents.
/// Residents are sorted by the power of two (at most the alignment) that divides their size, so
/// that each is aligned to that power and there are no gaps.
struct BlockMap {
  Bytes lead = 0;
  std::vector<Bytes> residents;         ///< by tensor; -1 for all but residents that stay in memory
  std::vector<Bytes> generator_states;  ///< by op; -1 if none is kept
  Bytes host_state_bytes = 0;  ///< of states that lie in memory of the host, not in the block
  Bytes reserve = 0;
  Bytes arena = 0;
  Bytes end = 0;
  std::vector<Bytes> cuts = {};  ///< ascending borders between sections
  /// The section that replaces results in the caller's memory after they are dropped
  /// (graph/handed_out.h); empty without such results.
  Bytes late_begin = 0, late_end = 0;
  /// By tensor: the place of a foreign value (graph/boundary.h) that has one in the block; -1, or
  /// empty, for none.
  std::vector<Bytes> foreign = {};
};

/// How saved states of a device's generator are kept.
struct GeneratorStates {
  Bytes bytes = 0;       ///< of one
  bool on_host = false;  ///< outside the block, whose memory the host cannot write

  static GeneratorStates of(const device::ComputeDevice& device) {
    return {device.generator_state_bytes(), !device.is_host_memory()};
  }
};

/// Places residents that stay in memory, the generator states of random ops that the plan runs more
/// than once, the plan's arena and a reserve (bytes, a multiple of the alignment). The plan must
/// have a layout.
BlockMap map_block(const Graph& graph, const Plan& plan, const GeneratorStates& states,
                   Bytes reserve_bytes);

/// Whether tensors that the caller has at other addresses in each step have places in the block,
/// where they are copied to or from: inputs, foreign values.
enum class Places : std::uint8_t { none, fixed };

/// The same without residents and reserve, for a step whose residents are in the caller's memory,
/// with the sections of the plan's layout. The states of the generator are a section of their own,
/// the first: they are of no use when the step is over, and outputs are. So are the places, the
/// last.
BlockMap map_arena(const Graph& graph, const Plan& plan, const GeneratorStates& states,
                   Places places = Places::none);

/// Whether a resident has a place of its own among fixed ones: one that each call brings, that the
/// step does not write, and whose elements each have bytes of their own.
bool has_place(const Graph& graph, TensorId resident);
/// The bytes of all fixed places, with the most that may lie before them to reach the alignment.
Bytes placed_bytes(const Graph& graph);

}  // namespace lowtide::runtime
