#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace lowtide {

enum class Verb : std::uint8_t { run, free, offload, prefetch };

/// One step of a plan. Times in this project are indices of actions; intervals are half-open.
struct Action {
  Verb verb = Verb::run;
  std::int32_t index = 0;     ///< the op of a run, else the tensor
  std::vector<int> in_place;  ///< of a run: output positions written over their input
  bool operator==(const Action&) const = default;
};

/// The place in the arena of a storage or workspace that begins at one action.
struct Placement {
  bool workspace = false;  ///< of the op `index`; else the storage of the tensor `index`
  std::int32_t index = 0;
  Bytes offset = 0;  ///< from the start of the arena, which excludes resident tensors
  bool operator==(const Placement&) const = default;
};

/// Addresses of everything that a plan makes. `placements[a]` belongs to action a.
struct Layout {
  std::vector<std::vector<Placement>> placements;
  Bytes arena_bytes = 0;  ///< resident tensors included
  /// Ascending offsets that may divide the arena into sections, which are allocated and released
  /// separately. No buffer crosses a border.
  std::vector<Bytes> borders = {};
  bool operator==(const Layout&) const = default;
};

/// A sequence of executions and frees, chosen by a strategy (docs/reference/plan-format.md).
struct Plan {
  std::string graph;
  std::string strategy;
  std::optional<Bytes> budget_bytes;
  std::vector<Action> actions;
  double cost = 0;
  Bytes peak_bytes = 0;
  std::optional<double> lower_bound;  ///< no plan under `model` within the budget costs less
  std::string model = "fixed-order";
  double seconds = 0;  ///< planning time
  std::optional<Layout> layout;
};

}  // namespace lowtide
