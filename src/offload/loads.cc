#include "offload/loads.h"

#include <algorithm>
#include <utility>

#include "graph/boundary.h"
#include "graph/in_flight.h"
#include "plan/in_place.h"
#include "remat/stage_graph.h"

namespace lowtide::offload {
namespace {

class LoadGraphMaker {
 public:
  LoadGraphMaker(const Graph& graph, std::span<const std::optional<double>> prices, Reruns reruns)
      : graph_(graph),
        prices_(prices),
        reruns_(reruns),
        needed_(remat::needed_ops(graph)),
        data_(graph.data()),
        resident_tokens_(graph.tensors().size(), kNone) {}

  LoadGraph make() {
    data_.ops.clear();
    for (TensorId id = 0; id < graph_.num_tensors(); ++id) {
      if (is_loaded(id) && graph_.is_resident(id)) make_value(id);
    }
    for (OpId id = 0; id < graph_.num_ops(); ++id) add(id);
    return {Graph(std::move(data_)), std::move(original_), std::move(loaded_), first_};
  }

 private:
  struct Taken {
    TensorId storage, token;
  };

  bool is_loaded(TensorId id) const { return prices_[id].has_value(); }

  void add(OpId id) {
    Op op = graph_.op(id);
    // An op that may not run again runs once, also where nothing needs it.
    const bool may_rerun = reruns_ != Reruns::none || graph_.is_view_op(id) || !needed_[id];
    op.recomputable = op.recomputable && may_rerun;
    op.allocations.clear();  // they name outputs, and no plan for this graph is run
    for (TensorId in : graph_.op(id).inputs) load_resident(graph_.storage(in), op.phase);
    if (!graph_.is_view_op(id)) use_resident_tokens(id, op);
    std::vector<Taken> taken;
    for (TensorId& out : op.outputs) {
      if (!is_loaded(out)) continue;
      const TensorId token = token_of(out);
      taken.push_back({std::exchange(out, token), token});
    }
    if (!taken.empty()) make_tokens(op, taken);
    push(std::move(op), id, kNone);
    for (const Taken& one : taken) add_load(one, graph_.op(id).phase);
  }

  void make_value(TensorId resident) {
    Tensor& tensor = data_.tensors[resident];
    tensor.kind = Kind::value;
    tensor.init.reset();
    resident_tokens_[resident] = token_of(resident);
    data_.tensors.back().kind = Kind::resident;
  }

  /// Once, before the first op that uses it.
  void load_resident(TensorId storage, Phase phase) {
    if (resident_tokens_[storage] == kNone || std::ranges::count(loaded_, storage) > 0) return;
    add_load({storage, resident_tokens_[storage]}, phase);
  }

  /// The op writes the token of a resident that it writes.
  void use_resident_tokens(OpId id, Op& op) const {
    const Op& original = graph_.op(id);
    for (std::size_t i = 0; i < original.inputs.size(); ++i) {
      const TensorId token = resident_tokens_[graph_.storage(original.inputs[i])];
      if (token == kNone) continue;
      const auto at = static_cast<int>(op.inputs.size());
      op.inputs.push_back(token);
      std::ranges::replace(op.mutates, static_cast<int>(i), at);
      std::erase_if(op.inplace,
                    [&](const InPlace& pair) { return pair.input == static_cast<int>(i); });
    }
  }

  TensorId token_of(TensorId storage) {
    Tensor token;
    token.name = "copy of " + graph_.tensor(storage).name;
    data_.tensors.push_back(std::move(token));
    return static_cast<TensorId>(data_.tensors.size()) - 1;
  }

  /// While the op runs, the values are there as well, unless they are written over an input.
  void make_tokens(Op& op, const std::vector<Taken>& taken) const {
    if (reruns_ != Reruns::of_all) op.recomputable = false;
    const OpId id = graph_.producer(taken.front().storage);
    for (const Taken& one : taken) {
      if (!is_written_over(id, one.storage)) {
        op.workspace_bytes += graph_.tensor(one.storage).bytes;
      }
    }
    std::erase_if(op.inplace, [&](const InPlace& pair) {
      return op.outputs[pair.output] >= graph_.num_tensors();
    });
  }

  /// Over an input that nothing reads afterwards.
  bool is_written_over(OpId id, TensorId storage) const {
    const Op& op = graph_.op(id);
    return std::ranges::any_of(op.inplace, [&](const InPlace& pair) {
      return op.outputs[pair.output] == storage && may_overwrite(graph_, op, pair) &&
             last_reader(graph_.storage(op.inputs[pair.input])) == id;
    });
  }

  OpId last_reader(TensorId storage) const {
    OpId last = kNone;
    const auto look = [&](TensorId id) {
      if (!graph_.readers(id).empty()) last = std::max(last, graph_.readers(id).back());
    };
    look(storage);
    std::ranges::for_each(graph_.views(storage), look);
    return last;
  }

  void add_load(const Taken& one, Phase phase) {
    Op load;
    load.name = "load " + graph_.tensor(one.storage).name;
    load.inputs = {one.token};
    load.outputs = {one.storage};
    load.cost = *prices_[one.storage];
    load.phase = phase;
    first_ += load.cost;
    push(std::move(load), kNone, one.storage);
  }

  void push(Op op, OpId original, TensorId loaded) {
    data_.ops.push_back(std::move(op));
    original_.push_back(original);
    loaded_.push_back(loaded);
  }

  const Graph& graph_;
  std::span<const std::optional<double>> prices_;
  const Reruns reruns_;
  const std::vector<bool> needed_;  ///< by op
  GraphData data_;
  std::vector<OpId> original_;
  std::vector<TensorId> loaded_;
  std::vector<TensorId> resident_tokens_;  // by tensor; kNone: not a resident that is loaded
  double first_ = 0;
};

}  // namespace

std::vector<bool> movable(const Graph& graph) {
  const std::vector<bool> counted = counted_results(graph);
  const std::vector<bool> needed = remat::needed_ops(graph);
  std::vector<bool> result(graph.tensors().size());
  for (TensorId id = 0; id < graph.num_tensors(); ++id) {
    const Tensor& tensor = graph.tensor(id);
    result[id] = tensor.kind == Kind::value && tensor.alias_of == kNone && tensor.bytes > 0 &&
                 !counted[id] && needed[graph.producer(id)];
  }
  for (TensorId id : graph.outputs()) result[graph.storage(id)] = false;
  // A view that is made by a stage would be lost with its storage, or come before it. Others are
  // made again where they are read.
  for (OpId id : remat::stage_order(remat::StageGraph(graph))) {
    for (TensorId out : graph.op(id).outputs) {
      if (graph.storage(out) != out) result[graph.storage(out)] = false;
    }
    if (is_boundary(graph.op(id)) || is_wait(graph.op(id))) {
      for (TensorId in : graph.op(id).inputs) result[graph.storage(in)] = false;
    }
  }
  return result;
}

std::vector<TensorId> loaded_residents(const Graph& graph, const LoadGraph& loads) {
  std::vector<TensorId> found;
  for (TensorId id : loads.loaded) {
    if (id != kNone && graph.is_resident(id)) found.push_back(id);
  }
  return found;
}

LoadGraph with_loads(const Graph& graph, std::span<const std::optional<double>> prices,
                     Reruns reruns) {
  return LoadGraphMaker(graph, prices, reruns).make();
}

LoadPlaces load_places(const Graph& graph, const LoadGraph& loads) {
  LoadPlaces places{std::vector<OpId>(graph.ops().size(), kNone),
                    std::vector<OpId>(graph.tensors().size(), kNone)};
  for (OpId id = 0; id < loads.graph.num_ops(); ++id) {
    if (loads.original[id] != kNone) places.op[loads.original[id]] = id;
    if (loads.loaded[id] != kNone) places.load[loads.loaded[id]] = id;
  }
  return places;
}

}  // namespace lowtide::offload
