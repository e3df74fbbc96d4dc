#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "plan/lanes.h"
#include "slower/aligned_memory.h"

namespace lowtide {

enum class Verb : std::uint8_t {
  run,
  free,
  offload,   ///< starts to copy a storage to slower memory; it stays, and may be read
  prefetch,  ///< begins a storage and starts to copy it back; it may not be read yet
  wait       ///< until the copy of that storage that is under way has ended
};

/// Whether it starts a copy to or from slower memory, or waits for one.
constexpr bool moves_values(Verb verb) { return verb != Verb::run && verb != Verb::free; }

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

/// The place in slower memory of a storage that the plan offloads, or of a resident that lies
/// there.
struct Copy {
  TensorId storage = kNone;
  Bytes offset = 0;
  bool operator==(const Copy&) const = default;
};

/// Of the offset of a value in slower memory, and in the arena if it is large: a disk copies whole
/// pages from and to memory itself, and other bytes by way of a buffer.
inline constexpr Bytes kCopyAlignment = slower::kPage;

/// A second place of slower memory, such as a disk beside the host's memory, and what the plan may
/// take of each place.
struct SecondPlace {
  Bytes begin = 0;  ///< the bytes of the first place: copies from this offset on lie in the second
  Lanes lanes;
  std::optional<Bytes> first_budget = {}, budget = {};  ///< of bytes in the first and in this place
  bool operator==(const SecondPlace&) const = default;
};

/// The slower memory that a plan uses. A copy takes its bytes from its first offload to the last
/// wait for it, that of a resident for the whole step.
struct SlowerMemory {
  Lanes lanes;               ///< of the first place, which is all of it where there is no second
  std::vector<Copy> copies;  ///< one for each storage that is offloaded
  Bytes bytes = 0;           ///< of both places
  /// Residents that lie there when a step begins and when it ends. In between, each takes memory
  /// from a prefetch to a free, and one that an op writes is offloaded before it is freed.
  std::vector<TensorId> residents = {};
  std::optional<SecondPlace> second = {};
  bool operator==(const SlowerMemory&) const = default;
};

/// A sequence of executions, frees and copies, chosen by a strategy
/// (docs/reference/plan-format.md).
struct Plan {
  std::string graph;
  std::string strategy;
  std::optional<Bytes> budget_bytes;
  std::vector<Action> actions;
  double cost = 0;  ///< the sum over executions, with the time that waits take
  Bytes peak_bytes = 0;
  std::optional<double> lower_bound;  ///< no plan under `model` within the budget costs less
  std::string model = "fixed-order";
  double seconds = 0;  ///< planning time
  std::optional<Layout> layout;
  std::optional<SlowerMemory> slower;  ///< none: copies take no time and have no addresses
};

}  // namespace lowtide
