#pragma once

#include <cstdint>
#include <vector>

#include "base/control.h"
#include "packing/instance.h"

namespace lowtide::packing {

/// The place that the search fills next, among places where no item can lie lower.
enum class ValleyRule : std::uint8_t {
  tight,          ///< the least space to waste
  few,            ///< the fewest buffers to choose from
  tight_and_few,  ///< the smallest product of both
  lowest_tight,   ///< the lowest; then the least space to waste
  lowest_few      ///< the lowest; then the fewest buffers to choose from
};

/// Heuristic choices of one search; they never affect the validity of a proof.
struct Guide {
  ValleyRule rule = ValleyRule::few;
  std::vector<double> preference;  ///< per item: larger is tried first
};

enum class Verdict : std::uint8_t { packed, impossible, out_of_work };

struct Attempt {
  Verdict verdict = Verdict::out_of_work;
  std::vector<Bytes> offsets;  ///< per item, when packed
  std::int64_t nodes = 0;      ///< branches tried, and choices abandoned
  std::int64_t work = 0;       ///< items visited: a deterministic measure of time
};

/// Looks for a packing no higher than `capacity` by depth-first branch and bound; the verdict is
/// `impossible` only when there is none. Respects fixed offsets and alignments. Every clique has a
/// floor; its unplaced items lie at or above it. The search takes a clique whose floor is a valley
/// (no connected neighbour is lower), and branches on the unplaced item that lies directly on it,
/// or on no item. It prunes:
/// - cliques whose floor plus unplaced bytes exceed the capacity, after floors have risen to the
///   lowest possible offset of their unplaced items;
/// - packings in which an item could move down into a gap, and a larger item on a smaller item of
///   the same life: among packings of the same height, the one with the least sum of bytes^2 x
///   offset has neither;
/// - equal items in another order.
/// Ranges of cliques that no unplaced item connects are searched separately, and a failure in one
/// backtracks to its own last choice. The search prefers cliques that failed before ("dom/wdeg",
/// Boussemart et al., ECAI 2004). Canonical and dominated packings, floors and decomposition follow
/// MiniMalloc (Moffitt, ASPLOS 2023), which branches on items, not places. Not recursive. Memory:
/// O(items + cliques + sum of lives in cliques).
Attempt search_valleys(const Instance& instance, Bytes capacity, const Guide& guide,
                       std::int64_t most_nodes, std::int64_t most_work, const Control& control);

}  // namespace lowtide::packing
