#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "graph/graph.h"
#include "plan/plan.h"
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
/// Whether the strategy of that name is one of those that need slower memory.
bool always_moves(std::string_view strategy);
/// The name of the strategy, as in a plan.
std::string_view name(Ways ways);

/// A second place of slower memory, which plans may use beside the first.
struct SecondSlower {
  Lanes lanes;
  std::optional<Bytes> bytes = {};  ///< none: no limit
  Bytes buffers = 0;                ///< as in Slower
};

/// The slower memory that a plan may use.
struct Slower {
  Lanes lanes;
  std::optional<Bytes> bytes = {};  ///< none: no limit
  /// Whether residents may lie there between steps (offload/residents.h). For a program that keeps
  /// none of them itself.
  bool residents = false;
  /// Of the budget, what copies need: a plan that moves has so much less memory.
  Bytes buffers = 0;
  std::optional<SecondSlower> second = {};

  bool has_room(const SlowerMemory& wanted) const;
  /// Of both places; none: no limit.
  std::optional<Bytes> all_bytes() const;
  Bytes all_buffers() const { return buffers + (second ? second->buffers : 0); }
  /// No plan that uses the places copies back faster than by these lanes.
  Lanes fastest() const { return second ? together({lanes, second->lanes}) : lanes; }
};

/// One of the two places alone.
Slower only_first(Slower slower);
Slower only_second(const Slower& slower);

/// The bytes that every plan needs that may move all it likes: structural_floor(), or with buffers
/// and residents that count only while their ops run, if they may move and that is less.
Bytes floor_of_moves(const Graph& graph, const Slower& slower);

/// As measured, for a graph whose costs are in microseconds.
Lanes lanes_of(const slower::LaneSpeed& speed);

/// For a graph whose costs are in microseconds: "1.8 GB/s out, 1.2 GB/s in".
std::string describe(const Lanes& lanes);

}  // namespace lowtide::offload
