#pragma once

#include <vector>

#include "strategy/checkpointing.h"
#include "strategy/lower_sets/family.h"

namespace lowtide::strategy::lower_sets {

/// Dynamic programming over a family of lower sets (Kusumoto, Inoue, Watanabe, Akiba, Koyama, "A
/// graph theoretic framework of recomputation algorithms for memory-efficient backpropagation",
/// NeurIPS 2019). A chain of sets, from the empty set to the whole, cuts the forward pass into
/// segments. Values that cross from a set to its outside are cached; the backward pass makes the
/// rest of a segment again when it reaches the segment. The last segment stays.
///
/// Time is rounded up to slots. O(sets^2 x (stages + slots)) time, O(sets^2) memory.
class LowerSetProgram {
 public:
  /// The stages between a set and a larger one.
  struct Segment {
    bool possible = false;  ///< the sets are nested
    double cost = 0;        ///< of running it again
    Bytes cached = 0;
    Bytes needed = 0;  ///< when the backward pass is there, apart from bytes cached before it
  };

  /// `kept` values (per value) are always in memory. `family` begins with the empty set, ends with
  /// the whole, and is sorted by size. When `control` says stop, some segments are missing.
  LowerSetProgram(const remat::StageGraph& graph, int forward_end, std::vector<bool> kept,
                  std::vector<LowerSet> family, int slots, const Control& control);

  int num_sets() const { return static_cast<int>(family_.size()); }
  const Segment& segment(int from, int to) const {
    return segments_[static_cast<std::size_t>(from) * family_.size() + to];
  }
  /// Bytes that are always in use.
  Bytes fixed_bytes() const { return fixed_bytes_; }
  /// The sets of the cheapest chain that needs at most `bytes` in addition to the fixed bytes,
  /// first and last included; empty when there is none.
  std::vector<int> cheapest(Bytes bytes) const;
  Checkpoints checkpoints(const std::vector<int>& chain) const;

 private:
  Segment make_segment(int from, int to, const std::vector<bool>& read_behind) const;
  std::vector<bool> read_behind(const LowerSet& set) const;

  const remat::StageGraph& graph_;
  int forward_end_;
  std::vector<bool> kept_;
  std::vector<LowerSet> family_;
  int slots_;
  double unit_ = 0;  // cost of a slot
  Bytes fixed_bytes_ = 0;
  std::vector<Bytes> beside_;      // per value: most gradients and workspace while it is read later
  std::vector<Segment> segments_;  // by from, to
};

}  // namespace lowtide::strategy::lower_sets
