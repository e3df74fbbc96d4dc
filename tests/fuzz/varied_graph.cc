#include "fuzz/varied_graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "graph/boundary.h"
#include "graph/handed_out.h"
#include "graph/random_graph.h"
#include "models/model.h"
#include "support/attention_step.h"
#include "support/chance.h"
#include "support/random_graph.h"
#include "support/recurrent_step.h"
#include "support/small_graphs.h"
#include "support/trained_chain.h"
#include "support/two_branches.h"

namespace lowtide::testing {
namespace {

// ---- Families -----------------------------------------------------------------------------------

Graph any_random_graph(Chance& chance) {
  return random_graph(chance.number(), {.ops = static_cast<int>(chance.between(1, 36)),
                                        .views = chance.percent(60),
                                        .multi_output = chance.percent(60),
                                        .workspaces = chance.percent(60),
                                        .in_place = chance.percent(60),
                                        .random_ops = chance.percent(40),
                                        .effects = chance.percent(50)});
}

/// Layers of ops that read some of the layer before, and then the same backwards, where each layer
/// also reads some of the values of its forward layer.
Graph layered_step(Chance& chance) {
  const int layers = 2 + chance.below(4);
  GraphData data;
  data.name = "layers";
  data.tensors = {resident("x", chance.between(1, 500))};
  const auto layer_after = [&](const std::vector<TensorId>& read, Phase phase) {
    std::vector<TensorId> made;
    for (int i = 1 + chance.below(3); i > 0; --i) {
      std::vector<TensorId> inputs{chance.pick(read)};
      for (int more = chance.below(3); more > 0; --more) inputs.push_back(chance.pick(read));
      made.push_back(static_cast<TensorId>(data.tensors.size()));
      data.tensors.push_back(value(fmt::format("v{}", made.back()), chance.between(1, 1000)));
      data.ops.push_back(op(fmt::format("op{}", made.back()), std::move(inputs), {made.back()},
                            static_cast<double>(chance.between(1, 20))));
      data.ops.back().phase = phase;
    }
    return made;
  };
  std::vector<std::vector<TensorId>> forward{{0}};
  for (int i = 0; i < layers; ++i) forward.push_back(layer_after(forward.back(), Phase::forward));
  std::vector<TensorId> last = forward.back();
  for (int i = layers; i >= 0; --i) {
    last.insert(last.end(), forward[i].begin(), forward[i].end());
    last = layer_after(last, Phase::backward);
  }
  data.outputs = {last.front()};
  return Graph(std::move(data));
}

Graph training_step(Chance& chance) {
  const int forward = static_cast<int>(chance.between(1, 14));
  GraphData data =
      random_step(chance.number(), forward, static_cast<int>(chance.between(1, 12))).data();
  const bool has_phases = chance.percent(70);
  for (std::size_t i = forward; has_phases && i < data.ops.size(); ++i) {
    data.ops[i].phase = Phase::backward;
  }
  return Graph(std::move(data));
}

Graph small_graph(Chance& chance) {
  const std::vector<Shape> all = shapes(static_cast<int>(chance.between(1, 5)));
  return graph_of(chance.pick(all), chance.pick(patterns()));
}

/// Of a model that is small enough to be planned often.
Graph model_step(Chance& chance) {
  models::ModelOptions sizes{.batch = chance.between(1, 9), .image = 8};
  sizes.layers = chance.between(1, 3);
  sizes.width = 8 * chance.between(1, 8);
  const std::vector<std::string> optimizers = models::optimizer_names();
  const models::Model& model = models::find_model("mlp");
  return models::training_graph(model, models::with_defaults(model, sizes),
                                {.name = chance.pick(optimizers)});
}

Graph some_graph(Chance& chance) {
  switch (chance.below(11)) {
    case 0: return chain_graph(static_cast<int>(chance.between(1, 16)), chance.between(0, 3000));
    case 1: return wide_step(static_cast<int>(chance.between(1, 20)), chance.below(6));
    case 2: return training_step(chance);
    case 3: return layered_step(chance);
    case 4: return small_graph(chance);
    case 5: return chance.percent(50) ? two_branches() : AttentionStep(1 + chance.below(2)).graph();
    case 6: return chance.percent(10) ? recurrent_step() : training_step(chance);
    case 7:
      return trained_chain(static_cast<int>(chance.between(1, 7)), chance.between(1, 5000),
                           chance.between(1, 3000));
    case 8: return model_step(chance);
    case 9: return Graph(RandomGraph(chance.number()).draw());
    default: return any_random_graph(chance);
  }
}

// ---- Changes ------------------------------------------------------------------------------------

bool owns_bytes(const Tensor& tensor) { return tensor.alias_of == kNone; }

/// All the numbers of one kind: each by its own order of magnitude, all alike, or mostly nothing.
template <typename Set>
void change_numbers(Chance& chance, int most_bits, const Set& set) {
  const int kind = chance.below(5);
  const std::int64_t alike = chance.between(1, 100);
  set([&]() -> std::int64_t {
    switch (kind) {
      case 0: return 1;
      case 1: return alike;
      case 2: return chance.percent(70) ? 0 : chance.between(1, 9);
      case 3: return chance.between(1, std::int64_t{1} << most_bits);
      default: return chance.between(1, std::int64_t{1} << chance.between(0, most_bits));
    }
  });
}

void change_sizes(Chance& chance, GraphData& data) {
  change_numbers(chance, 40, [&](const auto& some) {
    for (Tensor& tensor : data.tensors) {
      if (owns_bytes(tensor)) tensor.bytes = some();
    }
  });
}

void change_costs(Chance& chance, GraphData& data) {
  constexpr double kFractions[] = {1, 0.1, 1e-9, 1e6};
  const double unit = kFractions[chance.below(4)];
  const bool views_cost = chance.percent(40);
  change_numbers(chance, 20, [&](const auto& some) {
    for (Op& op : data.ops) {
      const bool makes_value = std::ranges::any_of(
          op.outputs, [&](TensorId out) { return owns_bytes(data.tensors[out]); });
      op.cost = makes_value || views_cost ? unit * static_cast<double>(some()) : 0;
    }
  });
}

void change_workspaces(Chance& chance, GraphData& data) {
  change_numbers(chance, 12, [&](const auto& some) {
    for (Op& op : data.ops) {
      op.allocations.clear();
      op.workspace_bytes = chance.percent(50) ? some() : 0;
    }
  });
}

void allow_in_place(Chance& chance, GraphData& data) {
  for (Op& op : data.ops) {
    op.inplace.clear();
    for (int k = 0; k < static_cast<int>(op.outputs.size()) && !op.inputs.empty(); ++k) {
      if (!owns_bytes(data.tensors[op.outputs[k]]) || chance.percent(50)) continue;
      op.inplace.push_back({k, chance.below(static_cast<int>(op.inputs.size()))});
    }
  }
}

/// Ops that run once, draw random numbers, or write what they read of residents.
void add_effects(Chance& chance, GraphData& data) {
  for (Op& op : data.ops) {
    if (is_boundary(op)) continue;
    if (chance.percent(10)) op.recomputable = false;
    if (chance.percent(10)) op.random = true;
    for (int k = 0; k < static_cast<int>(op.inputs.size()); ++k) {
      const Tensor& input = data.tensors[op.inputs[k]];
      const bool writes = owns_bytes(input) && input.kind == Kind::resident && chance.percent(15);
      if (writes && !std::ranges::count(op.mutates, k)) op.mutates.push_back(k);
    }
  }
}

void add_outputs(Chance& chance, GraphData& data) {
  for (TensorId id = 0; id < static_cast<TensorId>(data.tensors.size()); ++id) {
    if (chance.percent(15) && !std::ranges::count(data.outputs, id)) data.outputs.push_back(id);
  }
}

/// Addresses of a graph that can be executed have an alignment.
void align(Chance& chance, GraphData& data) {
  data.alignment = kArenaAlignment << chance.below(4);
  for (Op& op : data.ops) {
    if (op.args.empty()) op.args.push_back(NoneArg{});
  }
}

/// The value of an op before the boundary, which the caller gets, and a gradient of his that an op
/// after it reads.
Graph in_halves(Chance& chance, GraphData data) {
  const int ops = static_cast<int>(data.ops.size());
  const bool has_boundary = std::ranges::any_of(data.ops, is_boundary);
  if (ops < 2 || has_boundary) return Graph(std::move(data));
  const int place = static_cast<int>(chance.between(1, ops - 1));
  Op& maker = data.ops[chance.below(place)];
  if (maker.outputs.size() != 1 || !owns_bytes(data.tensors[maker.outputs.front()])) {
    return Graph(std::move(data));
  }
  const TensorId result = maker.outputs.front();
  maker.recomputable = false;
  maker.inplace.clear();
  Tensor& handed = data.tensors[result];
  handed.dtype = DType::f32;
  handed.strides.clear();
  handed.shape = {chance.between(1, 300)};
  handed.bytes = 0;
  const auto given = static_cast<TensorId>(data.tensors.size());
  data.tensors.push_back(value("gradient of the caller", 0));
  data.tensors.back().dtype = DType::f32;
  data.tensors.back().shape = data.tensors[result].shape;
  Op boundary = op("boundary", {result}, {given}, 0);
  boundary.type = kBoundary;
  boundary.recomputable = false;
  boundary.args = {TensorListArg{{0}}};
  data.ops[chance.between(place, ops - 1)].inputs.push_back(given);
  data.ops.insert(data.ops.begin() + place, std::move(boundary));
  const Graph halves(std::move(data));
  return chance.percent(50) ? with_results_dropped(halves, droppable_results(halves)) : halves;
}

Bytes some_bytes_after(Chance& chance, const Graph& graph) {
  Bytes all = 1;
  for (const Tensor& tensor : graph.tensors()) all += tensor.bytes;
  return chance.between(1, chance.percent(70) ? all : 2 * all);
}

}  // namespace

Graph varied_graph(std::uint64_t seed) {
  Chance chance(seed);
  GraphData data = some_graph(chance).data();
  if (chance.percent(35)) change_sizes(chance, data);
  if (chance.percent(30)) change_costs(chance, data);
  if (chance.percent(20)) change_workspaces(chance, data);
  if (chance.percent(25)) allow_in_place(chance, data);
  if (chance.percent(20)) add_effects(chance, data);
  if (chance.percent(15)) add_outputs(chance, data);
  if (chance.percent(15)) align(chance, data);
  Graph graph = chance.percent(12) ? in_halves(chance, std::move(data)) : Graph(std::move(data));
  return chance.percent(15) ? with_after_bytes(graph, some_bytes_after(chance, graph)) : graph;
}

}  // namespace lowtide::testing
