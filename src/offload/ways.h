#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "graph/graph.h"
#include "plan/lanes.h"
#include "slower/speed.h"

namespace lowtide::offload {

/// What a plan may do with a value that does not fit until its next use.
enum class Ways : std::uint8_t {
  rerun,  ///< compute it again
  move,   ///< copy it to slower memory and back
  both,
  save_on_cpu,  ///< the rules of others: offload/published.h
  capuchin,
  poet  ///< the integer program of others: offload/poet.h
};

/// Of the names "" (both), "search" (rerun), "offload" (move), "save-on-cpu", "capuchin" and
/// "poet".
/// Throws InputError for another strategy, as it does not know of slower memory.
Ways ways_of(std::string_view strategy);
/// The name of the strategy, as in a plan.
std::string_view name(Ways ways);

/// The slower memory that a plan may use.
struct Slower {
  Lanes lanes;
  std::optional<Bytes> bytes = {};  ///< none: no limit
  /// Whether residents may lie there between steps (offload/residents.h). For a program that keeps
  /// none of them itself.
  bool residents = false;
  /// Of the budget, what copies need: a plan that moves has so much less memory.
  Bytes buffers = 0;

  bool has_room(Bytes wanted) const { return !bytes || wanted <= *bytes; }
};

/// The bytes that every plan needs that may move all it likes: structural_floor(), or with buffers
/// and residents that count only while their ops run, if they may move and that is less.
Bytes floor_of_moves(const Graph& graph, const Slower& slower);

/// As measured, for a graph whose costs are in microseconds.
Lanes lanes_of(const slower::LaneSpeed& speed);

/// For a graph whose costs are in microseconds: "1.8 GB/s out, 1.2 GB/s in".
std::string describe(const Lanes& lanes);

}  // namespace lowtide::offload
