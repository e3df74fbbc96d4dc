#pragma once

#include <vector>

#include "graph/graph.h"

namespace lowtide::remat {

/// By op, whether a graph output or an effect depends on it.
std::vector<bool> needed_ops(const Graph& graph);

/// The graph as strategies see it: without views, which cost almost nothing and own no bytes, and
/// without ops that nothing needs.
///
/// Stage t ends with the first execution of its op; stages are in the order of the graph. A plan
/// is a set of *events* (t, i), i < t: the op of stage i runs again in stage t, before the first
/// execution of stage t, the events of a stage in the order of i (Jain et al., MLSys 2020). A use
/// reads the latest earlier execution, so any set of events is a plan, apart from memory.
/// The last stage stands for the end of the sequence: it runs nothing and reads the graph outputs.
struct Stage {
  /// The output is written over the input when the input dies here.
  struct Overlay {
    int output, input;
  };
  OpId op = kNone;  ///< kNone for the end
  double cost = 0;
  Bytes workspace = 0;
  Bytes in_place = 0;             ///< at most this many bytes of dying inputs may lie under outputs
  std::vector<int> inputs = {};   ///< values, each once; through views too
  std::vector<int> outputs = {};  ///< values
  std::vector<Overlay> overlays = {};  ///< the writes in place of plans, in order of preference
  int deadline = 0;  ///< the last stage in which the op may run again; its own if none
  /// The same for any plan. Strategies hold the inputs of a view op unless it is plain, but a plan
  /// may run that op again too, so a bound must use this.
  int latest = 0;
  Phase phase = Phase::forward;
};

/// A storage that a stage makes.
struct StageValue {
  TensorId tensor = kNone;
  Bytes bytes = 0;
  int producer = 0;
  std::vector<int> readers = {};  ///< stages, ascending, each once

  int last_reader() const { return readers.empty() ? producer : readers.back(); }
};

class StageGraph {
 public:
  explicit StageGraph(const Graph& graph);
  /// From stages that are known already, the end included; `views_cost` is the cost of needed ops
  /// that are no stage.
  StageGraph(std::vector<Stage> stages, std::vector<StageValue> values, Bytes resident_bytes,
             double views_cost = 0);

  const std::vector<Stage>& stages() const { return stages_; }
  const std::vector<StageValue>& values() const { return values_; }
  const Stage& stage(int i) const { return stages_[static_cast<std::size_t>(i)]; }
  const StageValue& value(int v) const { return values_[static_cast<std::size_t>(v)]; }
  int num_stages() const { return static_cast<int>(stages_.size()); }
  int num_values() const { return static_cast<int>(values_.size()); }
  /// The stage that stands for the end.
  int end() const { return num_stages() - 1; }
  Bytes resident_bytes() const { return resident_bytes_; }
  /// A lower bound on the cost of any plan: every needed op once, views too.
  double required_cost() const { return required_cost_; }
  bool may_rerun(int i, int t) const { return i < t && t <= stage(i).deadline; }
  /// Whether all plans of stages are sets of events: the rules allow no other writes in place than
  /// the overlays, and no reruns of ops that strategies run once.
  bool has_all_plans() const;

 private:
  struct Builder;
  std::vector<Stage> stages_;
  std::vector<StageValue> values_;
  Bytes resident_bytes_ = 0;
  double required_cost_ = 0;
};

/// The ops of all stages, each once.
std::vector<OpId> stage_order(const StageGraph& graph);
/// Those of the executions that run a stage. A plan runs plain views too, and may run ops that
/// nothing needs.
std::vector<OpId> only_stages(const StageGraph& graph, std::vector<OpId> executions);

/// Bytes in use, residents and workspace included, while each stage first runs, when every stage
/// runs once.
std::vector<Bytes> keep_all_profile(const StageGraph& graph);
/// The largest entry of keep_all_profile().
Bytes keep_all_peak(const StageGraph& graph);

}  // namespace lowtide::remat
