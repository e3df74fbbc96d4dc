#pragma once

#include <cstdint>
#include <vector>

#include "base/control.h"
#include "packing/instance.h"

namespace lowtide::packing {

/// Which place the search fills next, among those where nothing can come to lie lower.
enum class ValleyRule : std::uint8_t {
  tight,          ///< the least room to waste
  few,            ///< the fewest buffers to choose from
  tight_and_few,  ///< the smallest product of both
  lowest_tight,   ///< the lowest; then the least room to waste
  lowest_few      ///< the lowest; then the fewest buffers to choose from
};

/// How one search goes; it never changes what the search can prove.
struct Guide {
  ValleyRule rule = ValleyRule::few;
  std::vector<double> preference;  ///< per item: larger is tried first
};

enum class Verdict : std::uint8_t { packed, impossible, out_of_work };

struct Attempt {
  Verdict verdict = Verdict::out_of_work;
  std::vector<Bytes> offsets;  ///< per item, when packed
  std::int64_t nodes = 0;   ///< branches tried, or choices given up
  std::int64_t work = 0;  ///< items looked at: a deterministic stand-in for time
};

/// Looks for a packing no higher than `capacity` by depth-first branch and bound; says `impossible`
/// only when there is none. Fixed offsets and alignments are respected. Every clique has a floor,
/// and what is unplaced lies above it. The search takes a clique whose floor is a valley (no
/// neighbour is lower within what is connected) and branches on which unplaced item lies directly
/// on it, or that none does. Pruned are:
/// - cliques whose floor and unplaced bytes exceed the capacity, once floors have risen to the
///   lowest offset that any of their unplaced items can have;
/// - packings in which an item could move down into a gap, and stacks of items of the same life in
///   which a larger one lies on a smaller one: among packings of the same height, one that is least
///   in the sum of bytes^2 x offset has neither;
/// - equal items in another order.
/// Where no unplaced item connects two ranges of cliques they are searched apart, and a failure in
/// one goes back to the choice that concerns it. Cliques that fail attract the search
/// ("dom/wdeg", Boussemart et al., ECAI 2004). Canonical and dominated packings, floors and
/// decomposition follow MiniMalloc (Moffitt, ASPLOS 2023), which branches on items, not places.
/// Needs no recursion. Memory: O(items + cliques + sum of lives in cliques).
Attempt search_valleys(const Instance& instance, Bytes capacity, const Guide& guide,
                       std::int64_t most_nodes, std::int64_t most_work, const Control& control);

}  // namespace lowtide::packing
