#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "plan/lanes.h"
#include "planner/planner.h"
#include "slower/speed.h"

namespace lowtide::offload {

/// What a plan may do with a value that does not fit until its next use.
enum class Ways : std::uint8_t {
  rerun,  ///< compute it again
  move,   ///< copy it to slower memory and back
  both,
  save_on_cpu,  ///< the rules of others: offload/published.h
  capuchin
};

/// Of the names "" (both), "search" (rerun), "offload" (move), "save-on-cpu" and "capuchin". Throws
/// InputError for another strategy, as it does not know of slower memory.
Ways ways_of(std::string_view strategy);

/// The slower memory that a plan may use.
struct Slower {
  Lanes lanes;
  std::optional<Bytes> bytes = {};  ///< none: no limit
  /// Whether residents may lie there between steps (offload/residents.h). For a program that keeps
  /// none of them itself.
  bool residents = false;
};

/// The bytes that every plan needs that may move all it likes: structural_floor(), where residents
/// count only while their ops run, if they may move.
Bytes floor_of_moves(const Graph& graph, const Slower& slower);

/// As measured, for a graph whose costs are in microseconds.
Lanes lanes_of(const slower::LaneSpeed& speed);

/// For a graph whose costs are in microseconds: "1.8 GB/s out, 1.2 GB/s in".
std::string describe(const Lanes& lanes);

/// Plans within a budget of bytes, with slower memory: the default strategy decides about reruns
/// and loads together (offload/loads.h) for several choices of the values that move, of the price
/// of a load, and of the memory that is left to copies; lanes are followed in time
/// (offload/schedule.h), and the plan that ends first is the answer. With Ways::both it ends no
/// later than with either way alone: each way has the whole limit of `control`, so that the call
/// may take three of them, and two more where residents may move too: those that are the best to
/// move, in several amounts. Then the plan ends no later than without that. Where all fits,
/// nothing moves. The bound of the answer is for plans that may move what it moves
/// (offload/bound.h), but with Ways::rerun.
planner::Planned plan_with(const Graph& graph, Bytes budget, const Slower& slower, Ways ways,
                           Control& control, Bytes reserved_bytes = 0);

}  // namespace lowtide::offload
