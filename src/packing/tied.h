#pragma once

#include <string>
#include <vector>

#include "base/control.h"
#include "packing/solve.h"

namespace lowtide::packing {

/// Buffers that must be placed together. Each list is empty or has a name for every buffer ("" for
/// none); buffers of one name are tied.
struct Ties {
  /// All have one offset, also at different times: a value and the results written over it.
  std::vector<std::string> same;
  /// Adjacent in list order, each at the next offset that its alignment allows: the parts of a flat
  /// gradient. Buffers tied by `same` count once, at the place of their first.
  std::vector<std::string> groups;

  bool empty() const { return same.empty() && groups.empty(); }
  bool operator==(const Ties&) const = default;
};

/// solve_packing() for buffers with ties. Buffers that share an offset become one buffer, as
/// large as the largest and alive from the first begin to the last end. A group becomes one such
/// block, too. If the lives of its members differ, two more packings fix the members at the
/// group's offset in the first packing and in one by greedy_bodies(); the lowest packing is
/// kept, and the bound ignores groups. Throws InputError for contradictory ties and fixed
/// offsets.
SolvedPacking solve_tied_packing(const std::vector<Buffer>& buffers, const Ties& ties,
                                 const PackingGoal& goal, const Control& control);

}  // namespace lowtide::packing
