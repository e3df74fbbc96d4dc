#pragma once

#include <string>
#include <vector>

#include "base/control.h"
#include "packing/solve.h"

namespace lowtide::packing {

/// Which buffers may not be placed by themselves. Each list has a name for every buffer, "" for
/// none, or is empty; buffers of one name belong together.
struct Ties {
  /// One offset for all, whenever they are alive: a value and what is written over it.
  std::vector<std::string> same;
  /// Side by side in the order in which they are listed, each at the next offset that its alignment
  /// allows: the parts of a flat gradient. What `same` ties counts once, in place of its first.
  std::vector<std::string> groups;

  bool empty() const { return same.empty() && groups.empty(); }
  bool operator==(const Ties&) const = default;
};

/// solve_packing() for buffers with ties. What shares an offset is one buffer, as large as the
/// largest and alive from the first begin to the last end. A group is placed as one such block; and
/// where its members do not live equally long, again with only these in the way of others, at its
/// offset in that packing and in one by greedy_bodies(): the lowest is kept, and the bound is that
/// of buffers without groups. Throws InputError for ties and fixed offsets that contradict each
/// other.
SolvedPacking solve_tied_packing(const std::vector<Buffer>& buffers, const Ties& ties,
                                 const PackingGoal& goal, const Control& control);

}  // namespace lowtide::packing
