#pragma once

#include <span>
#include <vector>

#include "ordering/precedence.h"

namespace lowtide::ordering {

/// The ops of these stages, in their order.
std::vector<OpId> ops_of(const remat::StageGraph& graph, std::span<const int> stages);

/// An order in which every stage runs once. Its memory is kept up to date while stages move.
class Schedule {
 public:
  /// In the order of the graph, which must outlive this. The end stays last.
  Schedule(const remat::StageGraph& graph, Precedence precedence, Bytes limit);
  /// In another order of all stages but the end.
  Schedule(const remat::StageGraph& graph, Precedence precedence, Bytes limit,
           std::vector<int> order);

  int size() const { return static_cast<int>(order_.size()); }
  /// The stage at each position.
  const std::vector<int>& order() const { return order_; }
  /// Sum over the positions of the bytes in use above the limit, residents and workspace included.
  Bytes excess() const { return excess_; }
  /// Counts the excess above another limit from now on.
  void set_limit(Bytes limit);
  Bytes peak() const;
  /// Per position: bytes in use while its stage runs.
  const std::vector<Bytes>& in_use() const { return in_use_; }
  /// Bytes live before the stage at the position runs; at size(), in the end.
  Bytes live_before(int position) const { return live_[position]; }
  int position(int stage) const { return position_[stage]; }
  const remat::StageGraph& graph() const { return *graph_; }
  const Precedence& precedence() const { return precedence_; }

  /// Positions [first, last] to which a stage may move while the others keep their order.
  struct Range {
    int first, last;
  };
  Range range_of(int position) const;
  /// Moves the stage at `from` to `to`, which must lie in its range; stages in between move by one.
  /// O(distance x values that these stages read and make).
  void move(int from, int to);
  /// Puts the stages from position `first` on in another order, which must be allowed.
  void rearrange(int first, std::span<const int> stages);

 private:
  void swap_with_next(int position);
  void run(int position);
  Bytes above_limit(int position) const;

  const remat::StageGraph* graph_;  // so that it may be assigned
  Precedence precedence_;
  Bytes limit_;
  std::vector<int> order_;     // per position: the stage
  std::vector<int> position_;  // per stage
  std::vector<int> last_;      // per value: the position of its last reader; its own if none
  std::vector<Bytes> live_;    // per position: before it runs
  std::vector<Bytes> in_use_;  // per position: while it runs
  Bytes excess_ = 0;
};

}  // namespace lowtide::ordering
