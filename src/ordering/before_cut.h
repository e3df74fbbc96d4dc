#pragma once

#include "ordering/precedence.h"
#include "solver/max_flow.h"

namespace lowtide::ordering {

/// The least bytes in use while a stage runs, of all orders in which every stage runs once.
///
/// What has run before it is a set that is closed under the precedence, with all that must come
/// before the stage and nothing that must come after. A value takes bytes where what makes it is in
/// the set and a reader is not; an output that may lie over an input costs bytes where another
/// reader of that is not. So the least is a minimum cut between those that must and those that must
/// not be in the set: a maximum flow on a node for each stage and value that is neither. No order
/// at all counts as more bytes than there are.
class BeforeCut {
 public:
  BeforeCut(const remat::StageGraph& graph, const Precedence& precedence, int stage);

  Bytes least() const { return own_ + flow_bytes_; }
  /// Whether the other stage has run before in an order with the least, the one found.
  bool has_run(int other) const { return !behind_[node_of_[other]]; }
  /// The least when the other stage has run before, or has not.
  Bytes least_after(int other) const { return least_with(source_, node_of_[other]); }
  Bytes least_before(int other) const { return least_with(node_of_[other], sink_); }

 private:
  void place(const remat::StageGraph& graph, const Precedence& precedence, int stage);
  void force(int from, int to);
  void add_cost(int from, Bytes bytes, const std::vector<int>& readers);
  Bytes least_with(int from, int to) const;

  int source_ = 0, sink_ = 1;
  std::vector<int> node_of_;   // per stage; those that must be in the set are the source
  int next_;                   // node of a value
  solver::MaxFlow flow_;
  Bytes own_ = 0;              // that count in any case
  Bytes flow_bytes_ = 0;
  std::vector<bool> behind_;   // per node: not in the set
};

}  // namespace lowtide::ordering
