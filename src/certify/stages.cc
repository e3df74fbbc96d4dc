#include "certify/stages.h"

#include <algorithm>
#include <utility>

namespace lowtide::certify {
namespace {

std::vector<TensorId> without_repeats(std::vector<TensorId> list) {
  std::ranges::sort(list);
  const auto repeated = std::ranges::unique(list);
  list.erase(repeated.begin(), repeated.end());
  return list;
}

class Derivation {
 public:
  explicit Derivation(const Graph& graph) : graph_(graph) {}

  Stages run() {
    mark_needed();
    list_stages();
    for (int t = 0; t <= stages_.end(); ++t) read(t);
    for (int t = 0; t < stages_.end(); ++t) stages_.last_rerun.push_back(last_rerun(t));
    stages_.last_rerun.push_back(kNone);
    for (int t = 0; t <= stages_.end(); ++t) stages_.own_needs.push_back(own_needs(t));
    stages_.needs = needs_of(graph_, stages_);
    return std::move(stages_);
  }

 private:
  /// Goes backwards, so that readers come before producers.
  void mark_needed() {
    needed_.resize(graph_.ops().size());
    for (TensorId id : graph_.outputs()) mark_makers(id);
    for (OpId id = graph_.num_ops() - 1; id >= 0; --id) {
      const Op& op = graph_.op(id);
      if (!op.recomputable || !op.mutates.empty()) needed_[id] = true;
      if (!needed_[id]) continue;
      stages_.cost += op.cost;
      for (TensorId in : op.inputs) mark_makers(in);
    }
  }

  void mark_makers(TensorId id) {
    for (TensorId made : {id, graph_.storage(id)}) {
      if (graph_.producer(made) != kNone) needed_[graph_.producer(made)] = true;
    }
  }

  void list_stages() {
    stages_.of_op.assign(graph_.ops().size() + 1, kNone);
    for (OpId id = 0; id < graph_.num_ops(); ++id) {
      if (!needed_[id] || is_plain_view(id)) continue;
      stages_.of_op[id] = static_cast<int>(stages_.ops.size());
      stages_.ops.push_back(id);
    }
    stages_.of_op.back() = static_cast<int>(stages_.ops.size());
    stages_.ops.push_back(graph_.num_ops());
    stages_.reads.resize(stages_.ops.size());
    stages_.readers.resize(graph_.tensors().size());
  }

  /// Whether the op only makes views of the one storage that it reads, without memory of its own.
  bool is_plain_view(OpId id) const {
    const Op& op = graph_.op(id);
    if (!graph_.is_view_op(id) || !op.recomputable || op.workspace_bytes > 0) return false;
    std::vector<TensorId> touched;
    for (TensorId in : op.inputs) touched.push_back(graph_.storage(in));
    for (TensorId out : op.outputs) touched.push_back(graph_.storage(out));
    return without_repeats(std::move(touched)).size() == 1;
  }

  void read(int t) {
    const OpId op = stages_.ops[t];
    std::vector<TensorId> storages;
    for (TensorId in : t == stages_.end() ? graph_.outputs() : graph_.op(op).inputs) {
      if (!graph_.is_resident(in)) storages.push_back(graph_.storage(in));
    }
    stages_.reads[t] = without_repeats(std::move(storages));
    for (TensorId storage : stages_.reads[t]) stages_.readers[storage].push_back(t);
  }

  /// Reruns in a stage come before the first run of the stage's op, so the last possible stage is
  /// that of the op that overwrites an input.
  int last_rerun(int t) const {
    const OpId op = stages_.ops[t];
    return graph_.op(op).recomputable ? stages_.of_op[graph_.expires(op)] : kNone;
  }

  Bytes own_needs(int t) const {
    Bytes bytes = graph_.resident_bytes();
    for (TensorId storage : stages_.reads[t]) bytes += graph_.tensor(storage).bytes;
    if (t == stages_.end()) return bytes;
    const Op& op = graph_.op(stages_.ops[t]);
    for (TensorId out : op.outputs) bytes += graph_.tensor(out).bytes;
    return bytes + op.workspace_bytes - overwritten(op);
  }

  /// Bytes of inputs that may end when the op begins, since its outputs may overwrite them.
  Bytes overwritten(const Op& op) const {
    std::vector<TensorId> sources;
    for (const InPlace& pair : op.inplace) {
      const TensorId source = graph_.storage(op.inputs[pair.input]);
      const bool fits = graph_.tensor(op.outputs[pair.output]).bytes <= graph_.tensor(source).bytes;
      if (fits && !graph_.is_resident(source)) sources.push_back(source);
    }
    Bytes bytes = 0;
    for (TensorId source : without_repeats(std::move(sources))) {
      bytes += graph_.tensor(source).bytes;
    }
    return bytes;
  }

  const Graph& graph_;
  std::vector<bool> needed_;  // per op
  Stages stages_;
};

}  // namespace

Stages stages_of(const Graph& graph) { return Derivation(graph).run(); }

/// A value that cannot be made again is held from its producer's first run to its last reader;
/// own_needs counts it at its readers.
std::vector<Bytes> needs_of(const Graph& graph, const Stages& stages) {
  std::vector<Bytes> needs = stages.own_needs;
  std::vector<Bytes> change(needs.size() + 1);
  for (TensorId id = 0; id < graph.num_tensors(); ++id) {
    const std::vector<int>& readers = stages.readers[id];
    if (readers.empty() || graph.op(graph.producer(id)).recomputable) continue;
    const Bytes bytes = graph.tensor(id).bytes;
    change[stages.of_op[graph.producer(id)] + 1] += bytes;
    change[readers.back() + 1] -= bytes;
    for (int t : readers) needs[t] -= bytes;
  }
  Bytes held = 0;
  for (std::size_t t = 0; t < needs.size(); ++t) {
    held += change[t];
    needs[t] += held;
  }
  return needs;
}

}  // namespace lowtide::certify
