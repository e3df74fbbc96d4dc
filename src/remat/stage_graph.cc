#include "remat/stage_graph.h"

#include <algorithm>
#include <set>
#include <utility>

#include "plan/in_place.h"

namespace lowtide::remat {

std::vector<bool> needed_ops(const Graph& graph) {
  std::vector<bool> needed(graph.num_ops());
  const auto need = [&](TensorId id) {
    if (graph.producer(id) != kNone) needed[graph.producer(id)] = true;
    const TensorId storage = graph.storage(id);
    if (graph.producer(storage) != kNone) needed[graph.producer(storage)] = true;
  };
  for (TensorId id : graph.outputs()) need(id);
  for (OpId id = graph.num_ops() - 1; id >= 0; --id) {
    const Op& op = graph.op(id);
    if (!op.mutates.empty() || !op.recomputable) needed[id] = true;
    if (needed[id]) std::ranges::for_each(op.inputs, need);
  }
  return needed;
}

namespace {

/// A view op that may run again wherever its storage is: plan/lower.h inserts it on demand. Other
/// ops that make views become stages that run once and pin the storages they view.
bool is_plain_view(const Graph& graph, OpId id) {
  if (!graph.is_view_op(id)) return false;
  const Op& op = graph.op(id);
  const TensorId base = graph.storage(op.outputs.front());
  const auto shares = [&](TensorId other) { return graph.storage(other) == base; };
  return op.recomputable && op.mutates.empty() && op.workspace_bytes == 0 &&
         std::ranges::all_of(op.outputs, shares) && std::ranges::all_of(op.inputs, shares);
}

}  // namespace

struct StageGraph::Builder {
  const Graph& graph;
  StageGraph& result;
  std::vector<bool> needed = needed_ops(graph);
  std::vector<int> value_of = std::vector<int>(graph.num_tensors(), kNone);
  std::vector<OpId> expires = std::vector<OpId>(graph.num_ops());  // through views too
  std::vector<bool> pinned = std::vector<bool>(graph.num_ops());

  void build() {
    for (OpId id = 0; id < graph.num_ops(); ++id) {
      if (!needed[id]) continue;
      result.required_cost_ += graph.op(id).cost;
      find_expiry(id);
      if (!is_plain_view(graph, id)) add_stage(id);
    }
    add_end();
    for (int i = 0; i < result.end(); ++i) set_deadline(i);
  }

  /// A rerun may also run again the views through which it reads.
  void find_expiry(OpId id) {
    expires[id] = graph.expires(id);
    for (TensorId in : graph.op(id).inputs) {
      const OpId producer = graph.producer(in);
      if (producer != kNone && is_plain_view(graph, producer)) {
        expires[id] = std::min(expires[id], expires[producer]);
      }
    }
  }

  void add_stage(OpId id) {
    const Op& op = graph.op(id);
    const int here = result.num_stages();
    result.stages_.push_back(
        {.op = id, .cost = op.cost, .workspace = op.workspace_bytes, .phase = op.phase});
    Stage& stage = result.stages_.back();
    pinned[id] = !op.recomputable;
    for (TensorId in : op.inputs) read(stage, here, in);
    for (TensorId out : op.outputs) {
      if (graph.tensor(out).alias_of == kNone) {
        make(stage, here, out);
      } else {
        pin(id, out);
      }
    }
    for (const InPlace& pair : op.inplace) {
      stage.in_place += overwritable(op, pair);
      if (may_overwrite(graph, op, pair)) overlay(stage, op, pair);
    }
  }

  /// Each output lies over at most one input, and each input under at most one output.
  void overlay(Stage& stage, const Op& op, const InPlace& pair) const {
    const int output = value_of[op.outputs[pair.output]];
    const int input = value_of[graph.storage(op.inputs[pair.input])];
    const auto clashes = [&](const Stage::Overlay& other) {
      return other.output == output || other.input == input;
    };
    if (std::ranges::none_of(stage.overlays, clashes)) stage.overlays.push_back({output, input});
  }

  Bytes overwritable(const Op& op, const InPlace& pair) const {
    const TensorId source = graph.storage(op.inputs[pair.input]);
    const bool fits = graph.tensor(op.outputs[pair.output]).bytes <= graph.tensor(source).bytes;
    return fits && !graph.is_resident(source) ? graph.tensor(source).bytes : 0;
  }

  void read(Stage& stage, int here, TensorId id) {
    const int value = value_of[graph.storage(id)];
    if (value == kNone) return;  // resident
    std::vector<int>& readers = result.values_[value].readers;
    if (!readers.empty() && readers.back() == here) return;
    stage.inputs.push_back(value);
    readers.push_back(here);
  }

  void make(Stage& stage, int here, TensorId id) {
    value_of[id] = result.num_values();
    stage.outputs.push_back(value_of[id]);
    result.values_.push_back({.tensor = id, .bytes = graph.tensor(id).bytes, .producer = here});
  }

  void pin(OpId id, TensorId view) {
    pinned[id] = true;
    const OpId base = graph.producer(graph.storage(view));
    if (base != kNone) pinned[base] = true;
  }

  void add_end() {
    const int here = result.num_stages();
    result.stages_.push_back({.deadline = here, .latest = here, .phase = Phase::optimizer});
    for (TensorId id : graph.outputs()) read(result.stages_.back(), here, id);
  }

  void set_deadline(int i) {
    Stage& stage = result.stages_[i];
    stage.deadline = stage.latest = i;
    if (!graph.op(stage.op).recomputable) return;
    const auto first = result.stages_.begin();
    const auto expiry = std::partition_point(
        first, result.stages_.end() - 1, [&](const Stage& s) { return s.op < expires[stage.op]; });
    stage.latest = static_cast<int>(expiry - first);
    if (!pinned[stage.op]) stage.deadline = stage.latest;
  }
};

StageGraph::StageGraph(const Graph& graph) : resident_bytes_(graph.resident_bytes()) {
  Builder{graph, *this}.build();
}

StageGraph::StageGraph(std::vector<Stage> stages, std::vector<StageValue> values,
                       Bytes resident_bytes, double views_cost)
    : stages_(std::move(stages)),
      values_(std::move(values)),
      resident_bytes_(resident_bytes),
      required_cost_(views_cost) {
  for (const Stage& stage : stages_) required_cost_ += stage.cost;
}

bool StageGraph::has_all_plans() const {
  return std::ranges::all_of(stages_, [&](const Stage& stage) {
    Bytes overlaid = 0;
    for (const Stage::Overlay& overlay : stage.overlays) overlaid += value(overlay.output).bytes;
    return overlaid == stage.in_place && stage.deadline == stage.latest;
  });
}

std::vector<OpId> stage_order(const StageGraph& graph) {
  std::vector<OpId> order;
  for (int i = 0; i < graph.end(); ++i) order.push_back(graph.stage(i).op);
  return order;
}

std::vector<OpId> only_stages(const StageGraph& graph, std::vector<OpId> executions) {
  const std::vector<OpId> stages = stage_order(graph);
  const std::set<OpId> known(stages.begin(), stages.end());
  std::erase_if(executions, [&](OpId id) { return !known.contains(id); });
  return executions;
}

std::vector<Bytes> keep_all_profile(const StageGraph& graph) {
  std::vector<Bytes> profile(graph.num_stages() + 1);
  for (const StageValue& value : graph.values()) {
    profile[value.producer] += value.bytes;
    profile[value.last_reader() + 1] -= value.bytes;
  }
  Bytes live = graph.resident_bytes();
  for (int i = 0; i < graph.num_stages(); ++i) {
    live += profile[i];
    profile[i] = live + graph.stage(i).workspace;
  }
  profile.pop_back();
  return profile;
}

Bytes keep_all_peak(const StageGraph& graph) {
  const std::vector<Bytes> profile = keep_all_profile(graph);
  return *std::ranges::max_element(profile);
}

}  // namespace lowtide::remat
