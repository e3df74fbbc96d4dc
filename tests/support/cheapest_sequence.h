#pragma once

#include <cstdint>
#include <vector>

#include "graph/graph.h"

namespace lowtide::testing {

/// Which sequences of executions and frees are meant; each kind holds those before it.
enum class Sequences : std::uint8_t {
  staged,       ///< first runs in the graph's order, and in between each op again at most once, in
                ///< that order too: what remat/stage_graph.h calls a set of events
  fixed_order,  ///< first runs in the graph's order, anything in between
  any_order     ///< everything that the definition of a sequence allows
};

/// The least cost of a sequence within a budget, by the definitions of
/// docs/reference/graph-format.md and nothing else: the shortest path over what is live and what
/// has run. It shares no code with strategies, lowering or replay.
///
/// For graphs without views and without writes to residents, of at most 8 ops and 12 values: the
/// path has up to 2^(values + ops) states.
class CheapestSequence {
 public:
  explicit CheapestSequence(const Graph& graph);

  /// kNever (support/brute_force.h) when no sequence is within the budget.
  double cost(Bytes budget, Sequences which) const;

 private:
  using Set = std::uint32_t;

  /// One way to execute an op: which outputs are written over which inputs is decided.
  struct Execution {
    int op;
    Set inputs, outputs;
    Set overwritten;  ///< inputs that end when the op begins
    Bytes bytes;      ///< what it adds to those that were in use
    double cost;
    bool once;
  };
  struct State {
    Set live = 0;
    Set ran = 0;
    int last = -1;  ///< of a staged sequence: the latest op that ran again since a first run
  };
  struct Search;

  void add_executions(const Graph& graph, OpId id, const std::vector<int>& value_of);
  std::size_t index(const State& state) const;

  std::vector<Execution> executions_;
  std::vector<Bytes> value_bytes_;
  Bytes resident_bytes_;
  Set wanted_ = 0;   ///< live at the end
  Set effects_ = 0;  ///< ops that must run
  int num_ops_;
};

}  // namespace lowtide::testing
