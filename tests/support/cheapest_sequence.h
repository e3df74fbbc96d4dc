#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "graph/graph.h"

namespace lowtide::testing {

/// A set of sequences of executions and frees; each includes the ones before it.
enum class Sequences : std::uint8_t {
  staged,       ///< first runs in the graph's order, and between them each op again at most once,
                ///< in that order too: a set of events in remat/stage_graph.h
  fixed_order,  ///< first runs in the graph's order, anything in between
  any_order     ///< all sequences that the definition allows
};

/// The least cost of a sequence within a budget, only by the definitions of
/// docs/reference/graph-format.md: the shortest path over live values and executed ops. It shares
/// no code with strategies, lowering or replay.
///
/// For graphs without views and without writes to residents, of at most 8 ops and 12 values: the
/// path has up to 2^(values + ops) states.
class CheapestSequence {
 public:
  explicit CheapestSequence(const Graph& graph);
  /// `load_costs`, by tensor: for which a value that was made can be had again, from nothing.
  CheapestSequence(const Graph& graph, std::span<const double> load_costs);

  /// kNever (support/brute_force.h) when no sequence is within the budget.
  double cost(Bytes budget, Sequences which) const;

 private:
  using Set = std::uint32_t;

  /// One way to execute an op, with its choice of outputs to write over inputs.
  struct Execution {
    int op;
    Set inputs, outputs;
    Set overwritten;  ///< inputs that end when the op begins
    Bytes bytes;      ///< bytes added to those in use before
    double cost;
    bool once;
    bool loads;  ///< no run of the op, but a copy of what it made
  };
  struct State {
    Set live = 0;
    Set ran = 0;
    int last = -1;  ///< of a staged sequence: the latest op that ran again since a first run
  };
  struct Search;

  void add_loads(const Graph& graph, std::span<const double> costs,
                 const std::vector<int>& value_of);
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
