#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "base/control.h"
#include "bounds/completion.h"
#include "remat/stage_graph.h"

namespace lowtide::bounds {

/// The goal of a HeldSetProgram, and its effort.
struct HeldSetEffort {
  double cost_below = 0;    ///< finds only plans that cost less
  std::int64_t states = 0;  ///< limit on created states, which bounds time and memory
};

struct HeldSetAnswer {
  /// The cheapest plan that costs less than `cost_below`, if there is one and the program finished.
  /// Reruns of a stage are in no particular order, and an op may run several times in a stage.
  std::optional<std::vector<OpId>> executions;
  double bound = 0;         ///< no plan costs less than this, or than `executions`
  bool complete = false;    ///< the program finished
  std::int64_t states = 0;  ///< that were made
};

/// A shortest path over sets of live values: dynamic programming, stage by stage. It uses the exact
/// memory of each run, reruns included. A lower bound on the remaining cost ends most paths early.
/// Plans may run any op again, in any order and any number of times in a stage; only first runs
/// keep the order of the graph.
///
/// These rules keep the number of states small and never lose the cheapest plan:
/// - A value stays live until a run does not fit; then a set of values is dropped, each of which is
///   needed to make it fit.
/// - A value that is useful only for too expensive reruns is not held.
/// - A state is dropped if another state has a superset of its values at no higher cost.
/// - A state is dropped if it can no longer make the inputs of its stage's first run.
///
/// It assumes at least as many writes in place as a plan may do. So the answer may be a plan that
/// does not fit, but the bound holds. Views are not counted.
class HeldSetProgram {
 public:
  /// All arguments must outlive this. Values of at most `free_bytes` are held for free: fewer
  /// states, but the answer may not fit, as with writes in place.
  HeldSetProgram(const remat::StageGraph& graph, Bytes budget, const CompletionBound& completion,
                 Bytes free_bytes);

  static bool is_small_enough(const remat::StageGraph& graph);

  HeldSetAnswer run(const HeldSetEffort& effort, const Control& control);

 private:
  struct State {
    ValueSet live;
    double cost = 0;  ///< of reruns so far
    int trace = -1;
  };
  struct Trace {
    int before;
    OpId op;
  };
  /// States by their sets; of equal sets the cheapest.
  struct Layer {
    struct Hash {
      std::size_t operator()(const ValueSet& set) const { return set.hash(); }
    };
    std::vector<State> states;
    std::unordered_map<ValueSet, int, Hash> index;
  };
  /// A run for which values may have to be dropped.
  struct Placing {
    const State* from;
    int stage;               ///< in which the op runs
    int op;                  ///< the stage of the op that runs
    ValueSet live;           ///< after the run, before values are dropped for it
    double cost;             ///< after the run
    std::vector<int> items;  ///< values that may be dropped, the largest first
    bool is_first() const { return stage == op; }
    /// The stage of the state after the run.
    int next_stage() const { return is_first() ? stage + 1 : stage; }
  };

  void find_use_costs();
  ValueSet useful(int stage, double cost) const;
  void find_sets();
  void expand(int stage, const State& state);
  ValueSet missing_ops(int stage, const ValueSet& live) const;
  bool may_all_run(int stage, const ValueSet& ops) const;
  void place(int stage, int op, const State& state);
  void list_items(Placing& placing) const;
  bool must_stay(int value, int from_stage) const;
  void drop(const Placing& placing, std::size_t item, const ValueSet& live, Bytes missing,
            Bytes overwritable);
  bool must_end();
  void add(const Placing& placing, const ValueSet& live);
  bool costs_too_much(int stage, const ValueSet& live, double cost) const;
  double least_total(int stage, const ValueSet& live, double cost) const;
  std::vector<State> undominated(std::vector<State> states) const;
  Bytes bytes_of(const ValueSet& values) const;
  std::vector<OpId> executions_to(int trace) const;

  const remat::StageGraph& graph_;
  const CompletionBound& completion_;
  Bytes room_;  // budget less residents
  /// Per stage and value: the least cost of reruns, in that stage or later, from the value to one
  /// that a first run reads; 0 when a first run reads it itself, infinite when none does.
  std::vector<std::vector<double>> use_costs_;
  std::vector<ValueSet> inputs_;   // per stage
  std::vector<ValueSet> outputs_;  // per stage
  std::vector<Bytes> bytes_;       // per value
  std::vector<Bytes> own_bytes_;   // per stage: bytes of its op's outputs and workspace
  HeldSetEffort effort_;
  const Control* control_ = nullptr;  ///< of the present run
  std::int64_t drops_ = 0;            ///< sets that the present expansion tried
  bool ended_ = false;                ///< an expansion was cut short
  Layer here_;                        // states of the current stage, in the order of expansion
  Layer next_;                        // after its first run
  std::vector<Trace> traces_;
};

}  // namespace lowtide::bounds
