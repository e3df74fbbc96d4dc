#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "base/control.h"
#include "bounds/completion.h"
#include "remat/stage_graph.h"

namespace lowtide::bounds {

/// What a HeldSetProgram looks for, and for how long.
struct HeldSetEffort {
  double cost_below = 0;    ///< only plans that cost less
  std::int64_t states = 0;  ///< to make, at most: what takes time and memory
};

struct HeldSetAnswer {
  /// Of the cheapest plan that costs less than asked, when there is one and the program came to
  /// its end. Reruns of a stage are in no particular order, and an op may run several times in one.
  std::optional<std::vector<OpId>> executions;
  double bound = 0;       ///< no plan costs less than this, or than `executions`
  bool complete = false;  ///< the program came to its end
  std::int64_t states = 0;  ///< that were made
};

/// A shortest path over what is held: dynamic programming, stage by stage, over the sets of values
/// that are live, with the exact memory of each run, reruns included, and with a lower bound on
/// what is left to pay, which ends most paths early. Plans may run any op again in any order and
/// any number of times in a stage; only first runs keep the order of the graph.
///
/// What keeps the number of states small, all of it without losing the cheapest plan:
/// - A value stays live until a run does not fit; then a set of values goes of which each is needed
///   to make it fit.
/// - What is of use only to dear reruns is not held.
/// - A state with a subset of another's values and no less cost ends.
/// - So does one that can no longer make what the first run of its stage takes.
///
/// Of writes in place it assumes no less than what a plan may do, so the answer may be a plan that
/// does not fit, but the bound holds. Views are not counted.
class HeldSetProgram {
 public:
  /// All must outlive this. Values of no more than `free_bytes` are held for nothing: fewer states,
  /// and an answer that may not fit, as with writes in place.
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
  /// States by their sets; of equal ones the cheapest.
  struct Layer {
    struct Hash {
      std::size_t operator()(const ValueSet& set) const { return set.hash(); }
    };
    std::vector<State> states;
    std::unordered_map<ValueSet, int, Hash> index;
  };
  /// One run that is being made to fit.
  struct Placing {
    const State* from;
    int stage;               ///< in which it runs
    int op;                  ///< whose op runs
    ValueSet live;           ///< behind the run, before anything is dropped for it
    double cost;             ///< behind the run
    std::vector<int> items;  ///< values that may go, the largest first
    bool is_first() const { return stage == op; }
    /// To which the state behind the run belongs.
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
  void add(const Placing& placing, const ValueSet& live);
  bool is_too_dear(int stage, const ValueSet& live, double cost) const;
  double least_total(int stage, const ValueSet& live, double cost) const;
  std::vector<State> undominated(std::vector<State> states) const;
  Bytes bytes_of(const ValueSet& values) const;
  std::vector<OpId> executions_to(int trace) const;

  const remat::StageGraph& graph_;
  const CompletionBound& completion_;
  Bytes room_;  // budget less residents
  /// Per stage and value: the least cost of reruns, there and later, that lead from the value to
  /// one that a first run reads; 0 when a first run reads it itself, infinite when none does.
  std::vector<std::vector<double>> use_costs_;
  std::vector<ValueSet> inputs_;   // per stage
  std::vector<ValueSet> outputs_;  // per stage
  std::vector<Bytes> bytes_;       // per value
  std::vector<Bytes> own_bytes_;   // per stage: what its op makes and works in
  HeldSetEffort effort_;
  Layer here_;  // states in the current stage, in the order in which they are looked at
  Layer next_;  // behind its first run
  std::vector<Trace> traces_;
};

}  // namespace lowtide::bounds
