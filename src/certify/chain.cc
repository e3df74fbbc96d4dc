#include "certify/chain.h"

#include <algorithm>
#include <numeric>
#include <tuple>
#include <utility>

#include "certify/flaw.h"

namespace lowtide::certify {
namespace {

/// The ops that must run before an op's first run, in every valid sequence: producers and earlier
/// writers of its inputs, and earlier readers of the inputs that it overwrites.
class MustRun {
 public:
  explicit MustRun(const Graph& graph, const Stages& stages)
      : before_(graph.ops().size()),
        writer_(graph.tensors().size(), kNone),
        readers_(graph.tensors().size()) {
    for (OpId id = 0; id < graph.num_ops(); ++id) {
      for (TensorId in : graph.op(id).inputs) add(id, graph.producer(in));
      const bool runs = stages.of_op[id] != kNone;
      if (runs && !graph.is_view_op(id)) follow_writes(graph, id);
    }
  }

  const std::vector<OpId>& before(OpId id) const { return before_[id]; }

 private:
  void add(OpId id, OpId earlier) {
    if (earlier != kNone) before_[id].push_back(earlier);
  }

  void follow_writes(const Graph& graph, OpId id) {
    const Op& op = graph.op(id);
    for (TensorId in : op.inputs) {
      if (!graph.is_resident(in)) continue;
      add(id, writer_[graph.storage(in)]);
      readers_[graph.storage(in)].push_back(id);
    }
    for (int at : op.mutates) {
      const TensorId storage = graph.storage(op.inputs[at]);
      for (OpId reader : readers_[storage]) add(id, reader == id ? kNone : reader);
      readers_[storage].clear();
      writer_[storage] = id;
    }
  }

  std::vector<std::vector<OpId>> before_;   // per op
  std::vector<OpId> writer_;                // per storage: the last op so far that writes it
  std::vector<std::vector<OpId>> readers_;  // per storage: ops that read it since
};

/// Per op: how many ops of the chain must run up to, and from, its first run; itself included.
struct Places {
  std::vector<int> before, after;
};

Places places_of(const Graph& graph, const Stages& stages, const std::vector<OpId>& chain) {
  Places places{std::vector<int>(graph.ops().size()), std::vector<int>(graph.ops().size())};
  std::vector<int> position(graph.ops().size(), kNone);
  const auto size = static_cast<int>(chain.size());
  for (int k = 0; k < size; ++k) {
    const bool exists = chain[k] >= 0 && chain[k] < graph.num_ops();
    if (!exists || stages.of_op[chain[k]] == kNone || position[chain[k]] != kNone) {
      refuse(Flaw::bad_chain, "op {} on the chain has no stage, or is listed twice", chain[k]);
    }
    position[chain[k]] = k;
  }
  const MustRun must_run(graph, stages);
  for (OpId id = 0; id < graph.num_ops(); ++id) {
    int& before = places.before[id];
    for (OpId earlier : must_run.before(id)) before = std::max(before, places.before[earlier]);
    if (position[id] == kNone) continue;
    if (before != position[id]) {
      refuse(Flaw::bad_chain, "{} need not run right after the op before it on the chain",
             op_text(graph, id));
    }
    ++before;
  }
  for (OpId id = graph.num_ops(); id-- > 0;) {
    if (position[id] != kNone) places.after[id] = size - position[id];
    for (OpId earlier : must_run.before(id)) {
      places.after[earlier] = std::max(places.after[earlier], places.after[id]);
    }
  }
  return places;
}

/// New places of stages: `order[t]` is the old number of the new stage t, and `now` the inverse.
struct Reordering {
  std::vector<int> order, now;
};

Reordering by_last_place(const Stages& stages, const Places& places,
                         const std::vector<bool>& on_chain, int size) {
  Reordering result{std::vector<int>(stages.ops.size()), std::vector<int>(stages.ops.size())};
  std::iota(result.order.begin(), result.order.end(), 0);
  std::ranges::sort(result.order, {}, [&](int t) {
    const int after = t == stages.end() ? -1 : places.after[stages.ops[t]];
    return std::tuple(size - after, on_chain[t], t);
  });
  for (int t = 0; t <= stages.end(); ++t) result.now[result.order[t]] = t;
  return result;
}

}  // namespace

ChainedStages stages_along(const Graph& graph, const Stages& stages,
                           const std::vector<OpId>& chain) {
  const Places places = places_of(graph, stages, chain);
  const auto size = static_cast<int>(chain.size());
  std::vector<bool> on_chain(stages.ops.size());
  std::vector<bool> has_one_place(stages.ops.size());
  on_chain[stages.end()] = has_one_place[stages.end()] = true;
  for (OpId op : chain) on_chain[stages.of_op[op]] = true;
  for (int t = 0; t < stages.end(); ++t) {
    has_one_place[t] = places.before[stages.ops[t]] + places.after[stages.ops[t]] >= size;
  }
  const Reordering to = by_last_place(stages, places, on_chain, size);

  ChainedStages result{stages, {}};
  Stages& moved = result.stages;
  for (int t = 0; t <= stages.end(); ++t) {
    const int old = to.order[t];
    moved.ops[t] = stages.ops[old];
    moved.of_op[moved.ops[t]] = t;
    moved.reads[t] = stages.reads[old];
    moved.own_needs[t] = stages.own_needs[old];
    moved.last_rerun[t] = stages.last_rerun[old] == kNone ? kNone : to.now[stages.last_rerun[old]];
    result.on_chain.push_back(on_chain[old]);
  }
  for (std::vector<int>& readers : moved.readers) {
    std::erase_if(readers, [&](int t) { return !has_one_place[t]; });
    for (int& reader : readers) reader = to.now[reader];
    std::ranges::sort(readers);
  }
  // At other ops the values held in addition are unknown.
  const std::vector<Bytes> needs = needs_of(graph, moved);
  for (int t = 0; t <= stages.end(); ++t) {
    moved.needs[t] = result.on_chain[t] ? needs[t] : moved.own_needs[t];
  }
  return result;
}

}  // namespace lowtide::certify
