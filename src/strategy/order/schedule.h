#pragma once

#include <vector>

#include "strategy/order/precedence.h"

namespace lowtide {

/// An order in which every stage runs once, with its memory kept up to date while stages move.
class Schedule {
 public:
  /// In the order of the graph. The end stays last.
  Schedule(const StageGraph& graph, Precedence precedence, Bytes limit);

  int size() const { return static_cast<int>(order_.size()); }
  /// The stage at each position.
  const std::vector<int>& order() const { return order_; }
  /// Sum over the positions of the bytes in use above the limit, residents and workspace included.
  Bytes excess() const { return excess_; }
  Bytes peak() const;

  /// Where what stands at a position may go, others staying in their order: [first, last].
  struct Range {
    int first, last;
  };
  Range range_of(int position) const;
  /// Takes what stands at `from` to `to`, which must lie in its range, and moves what is between by
  /// one. O(distance x values that these stages read and make).
  void move(int from, int to);

 private:
  void swap_with_next(int position);
  void run(int position);
  Bytes above_limit(int position) const;

  const StageGraph& graph_;
  Precedence precedence_;
  Bytes limit_;
  std::vector<int> order_;     // per position: the stage
  std::vector<int> position_;  // per stage
  std::vector<int> last_;      // per value: the position of its last reader; its own if none
  std::vector<Bytes> live_;    // per position: before it runs
  std::vector<Bytes> in_use_;  // per position: while it runs
  Bytes excess_ = 0;
};

}  // namespace lowtide
