#pragma once

#include "ordering/precedence.h"
#include "solver/max_flow.h"

namespace lowtide::ordering {

/// The least bytes in use while a stage runs, over all orders in which every stage runs once.
///
/// The stages that have run before it form a set closed under the precedence. The set contains
/// every stage that must come before this one and none that must come after. A value needs bytes
/// when its producer is in the set and a reader is not. An output that may lie over an input costs
/// bytes when another reader of the input is not in the set. So the least is a minimum cut between
/// the stages that must be in the set and those that must not, with a node for each other stage and
/// value. If no order exists, the result exceeds the sum of all bytes.
class BeforeCut {
 public:
  BeforeCut(const remat::StageGraph& graph, const Precedence& precedence, int stage);

  Bytes least() const { return own_ + flow_bytes_; }
  /// Whether the other stage runs before in the order that was found, one with the least bytes.
  bool has_run(int other) const { return !behind_[node_of_[other]]; }
  /// The least if the other stage has run before, or if it has not.
  Bytes least_after(int other) const { return least_with(source_, node_of_[other]); }
  Bytes least_before(int other) const { return least_with(node_of_[other], sink_); }

 private:
  void place(const remat::StageGraph& graph, const Precedence& precedence, int stage);
  void force(int from, int to);
  void add_cost(int from, Bytes bytes, const std::vector<int>& readers);
  Bytes least_with(int from, int to) const;

  int source_ = 0, sink_ = 1;
  std::vector<int> node_of_;  // per stage; stages that must be in the set share the source
  int next_;                  // node of a value
  solver::MaxFlow flow_;
  Bytes own_ = 0;  // bytes that count in every order
  Bytes flow_bytes_ = 0;
  std::vector<bool> behind_;  // per node: not in the set
};

}  // namespace lowtide::ordering
