#include "strategy/checkmate/stage_reach.h"

namespace lowtide::strategy::checkmate {
namespace {

/// Values below this share of the budget are left out: solvers take a coefficient of their size for
/// zero.
constexpr double kTinyShare = 1e-7;

}  // namespace

double room_bytes(const remat::StageGraph& stages, Bytes budget) {
  return static_cast<double>(budget - stages.resident_bytes());
}

StageReach::StageReach(const Graph& graph, const remat::StageGraph& stages, Bytes budget)
    : last_run(stages.num_stages()),
      last_held(stages.num_values(), kNone),
      touchers(stages.num_values()),
      overwritten(stages.num_stages()) {
  const double tiny = kTinyShare * room_bytes(stages, budget);
  for (int i = stages.end(); i >= 0; --i) {
    last_run[i] = i;
    for (int v : stages.stage(i).outputs) {
      const remat::StageValue& value = stages.value(v);
      if (value.bytes == 0 || static_cast<double>(value.bytes) < tiny) continue;
      last_held[v] = i;
      for (int k : value.readers) last_held[v] = std::max(last_held[v], last_run[k]);
      last_run[i] = std::max(last_run[i], std::min(stages.stage(i).deadline, last_held[v]));
      touchers[v] = value.readers;
      touchers[v].insert(touchers[v].begin(), i);
    }
  }
  find_overwritten(graph, stages);
}

bool StageReach::may_overwrite(int i, int v) const {
  return std::ranges::find(overwritten[i], v) != overwritten[i].end();
}

void StageReach::find_overwritten(const Graph& graph, const remat::StageGraph& stages) {
  std::vector<int> value_of(graph.num_tensors(), kNone);
  for (int v = 0; v < stages.num_values(); ++v) value_of[stages.value(v).tensor] = v;
  for (int i = 0; i < stages.end(); ++i) {
    const Op& op = graph.op(stages.stage(i).op);
    for (const InPlace& pair : op.inplace) {
      const int v = value_of[graph.storage(op.inputs[pair.input])];
      if (v == kNone || !counts(v) || may_overwrite(i, v)) continue;
      if (graph.tensor(op.outputs[pair.output]).bytes > stages.value(v).bytes) continue;
      overwritten[i].push_back(v);
    }
  }
}

}  // namespace lowtide::strategy::checkmate
