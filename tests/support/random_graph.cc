#include "support/random_graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <random>
#include <utility>

#include "support/chance.h"

namespace lowtide::testing {
namespace {

class Generator {
 public:
  Generator(std::uint64_t seed, const RandomGraphOptions& options)
      : chance_(seed), options_(options) {
    data_.name = fmt::format("random-{}", seed);
  }

  Graph make() {
    const int residents = 1 + chance_.below(4);
    for (int i = 0; i < residents; ++i) add(resident(fmt::format("r{}", i), some_bytes()));
    while (static_cast<int>(data_.ops.size()) < options_.ops) add_op();
    add_outputs();
    return Graph(std::move(data_));
  }

 private:
  Bytes some_bytes() { return chance_.percent(10) ? 0 : 8 * (1 + chance_.below(200)); }

  TensorId add(Tensor tensor) {
    data_.tensors.push_back(std::move(tensor));
    return static_cast<TensorId>(data_.tensors.size()) - 1;
  }

  /// Mostly a recent tensor.
  TensorId some_tensor() {
    const int count = static_cast<int>(data_.tensors.size());
    const int reach = chance_.percent(70) ? std::min(count, 6) : count;
    return count - 1 - chance_.below(reach);
  }

  TensorId base(TensorId id) const {
    const TensorId of = data_.tensors[static_cast<std::size_t>(id)].alias_of;
    return of == kNone ? id : of;
  }

  void add_op() {
    Op made = op(fmt::format("op{}", data_.ops.size()), {}, {}, 1 + chance_.below(20));
    if (options_.views && chance_.percent(25)) {
      add_view_outputs(made);
    } else {
      add_inputs(made);
      add_value_outputs(made);
      add_properties(made);
    }
    data_.ops.push_back(std::move(made));
  }

  void add_inputs(Op& made) {
    const int count = 1 + chance_.below(3);
    for (int i = 0; i < count; ++i) made.inputs.push_back(some_tensor());
  }

  void add_view_outputs(Op& made) {
    made.inputs = {some_tensor()};
    made.cost = 0;
    const int count = chance_.percent(20) ? 2 : 1;
    for (int i = 0; i < count; ++i) {
      made.outputs.push_back(
          add(view(fmt::format("v{}", data_.tensors.size()), base(made.inputs[0]))));
    }
  }

  void add_value_outputs(Op& made) {
    const int count = options_.multi_output && chance_.percent(25) ? 2 + chance_.below(2) : 1;
    for (int i = 0; i < count; ++i) {
      const TensorId like = base(made.inputs[0]);
      const bool same = chance_.percent(50);
      const Bytes bytes =
          same ? data_.tensors[static_cast<std::size_t>(like)].bytes : some_bytes();
      made.outputs.push_back(add(value(fmt::format("t{}", data_.tensors.size()), bytes)));
    }
  }

  void add_properties(Op& made) {
    if (options_.workspaces && chance_.percent(30)) made.workspace_bytes = some_bytes();
    made.random = options_.random_ops && chance_.percent(10);
    if (options_.in_place && chance_.percent(40)) {
      made.inplace.push_back({0, chance_.below(static_cast<int>(made.inputs.size()))});
    }
    if (options_.effects) add_effects(made);
  }

  void add_effects(Op& made) {
    if (chance_.percent(5)) made.recomputable = false;
    const TensorId first = base(made.inputs[0]);
    const bool is_resident =
        data_.tensors[static_cast<std::size_t>(first)].kind == Kind::resident;
    if (!is_resident || !chance_.percent(20)) return;
    made.mutates = {0};
    // An update runs once; statistics may be withheld from a second run.
    made.recomputable = made.recomputable && chance_.percent(50);
    if (chance_.percent(30)) {
      data_.tensors.resize(data_.tensors.size() - made.outputs.size());
      made.outputs.clear();
      made.inplace.clear();
    }
  }

  void add_outputs() {
    std::vector<TensorId> values;
    for (TensorId id = 0; id < static_cast<TensorId>(data_.tensors.size()); ++id) {
      if (data_.tensors[static_cast<std::size_t>(id)].kind == Kind::value) values.push_back(id);
    }
    for (int i = 0; i < 3 && !values.empty(); ++i) {
      const TensorId id = i == 0 ? values.back() : chance_.pick(values);
      if (!std::ranges::count(data_.outputs, id)) data_.outputs.push_back(id);
    }
  }

  Chance chance_;
  RandomGraphOptions options_;
  GraphData data_;
};

/// Whether `id` may run again before op `next` has run.
bool can_repeat(const Graph& graph, OpId id, OpId next) {
  return graph.op(id).recomputable && !graph.is_view_op(id) && graph.expires(id) >= next;
}

}  // namespace

Graph random_graph(std::uint64_t seed, const RandomGraphOptions& options) {
  return Generator(seed, options).make();
}

std::vector<OpId> random_executions(const Graph& graph, std::uint64_t seed) {
  Chance chance(seed);
  std::vector<OpId> executions;
  for (OpId id = 0; id < graph.num_ops(); ++id) {
    for (int again = chance.percent(40) ? 1 + chance.below(3) : 0; again > 0 && id > 0; --again) {
      const OpId earlier = chance.below(id);
      if (can_repeat(graph, earlier, id)) executions.push_back(earlier);
    }
    if (graph.is_view_op(id) && graph.op(id).recomputable && chance.percent(50)) continue;
    executions.push_back(id);
  }
  return executions;
}

Graph chain_graph(int layers, Bytes bytes) {
  GraphData data;
  data.name = fmt::format("chain-{}", layers);
  data.tensors.push_back(resident("x", bytes));
  for (int i = 1; i <= layers; ++i) {
    data.tensors.push_back(value(fmt::format("a{}", i), bytes));
    data.ops.push_back(op(fmt::format("f{}", i), {i - 1}, {i}));
  }
  TensorId gradient = kNone;
  for (int i = layers; i >= 1; --i) {
    std::vector<TensorId> inputs{i - 1, i};
    if (gradient != kNone) inputs.push_back(gradient);
    gradient = static_cast<TensorId>(data.tensors.size());
    data.tensors.push_back(value(fmt::format("g{}", i), bytes));
    data.ops.push_back(op(fmt::format("b{}", i), inputs, {gradient}, 2));
    data.ops.back().phase = Phase::backward;
  }
  data.outputs = {gradient};
  return Graph(std::move(data));
}

Graph wide_step(int ops, int fan_in) {
  GraphData data;
  data.name = "wide step";
  for (int i = 0; i < ops; ++i) {
    std::vector<TensorId> inputs;
    for (int k = std::max(0, i - fan_in); k < i; ++k) inputs.push_back(k);
    data.tensors.push_back(value("value " + std::to_string(i), 64));
    data.ops.push_back(op("op " + std::to_string(i), std::move(inputs), {i}, 1));
  }
  data.outputs = {ops - 1};
  return Graph(std::move(data));
}

Graph random_step(std::uint64_t seed, int forward, int backward) {
  std::mt19937_64 random(seed);
  const auto pick = [&](int low, int high) {
    return low + static_cast<int>(random() % static_cast<std::uint64_t>(high - low + 1));
  };
  GraphData data;
  data.tensors = {resident("x", 1)};
  for (int i = 1; i <= forward + backward; ++i) {
    data.tensors.push_back(value("v" + std::to_string(i), pick(2, 6)));
    std::vector<TensorId> inputs{i - 1};
    if (i > 2 && i <= forward && pick(0, 2) == 0) inputs.push_back(pick(std::max(1, i - 3), i - 2));
    if (i > forward && i > 2) inputs.push_back(pick(1, std::min(forward, i - 2)));
    data.ops.push_back(op("op" + std::to_string(i), inputs, {i}, pick(1, 9)));
    data.ops.back().recomputable = i <= forward;
  }
  data.outputs = {forward + backward};
  return Graph(std::move(data));
}

Tensor value(std::string name, Bytes bytes) {
  Tensor tensor;
  tensor.name = std::move(name);
  tensor.bytes = bytes;
  return tensor;
}

Tensor resident(std::string name, Bytes bytes) {
  Tensor tensor = value(std::move(name), bytes);
  tensor.kind = Kind::resident;
  return tensor;
}

Tensor view(std::string name, TensorId of) {
  Tensor tensor = value(std::move(name), 0);
  tensor.alias_of = of;
  return tensor;
}

Op op(std::string name, std::vector<TensorId> inputs, std::vector<TensorId> outputs, double cost,
      Bytes workspace) {
  Op made;
  made.name = std::move(name);
  made.type = "test::op";
  made.inputs = std::move(inputs);
  made.outputs = std::move(outputs);
  made.cost = cost;
  made.cost_estimated = false;
  made.workspace_bytes = workspace;
  return made;
}

Action run(OpId id, std::vector<int> in_place) { return {Verb::run, id, std::move(in_place)}; }

Action free_of(TensorId id) { return {Verb::free, id, {}}; }

}  // namespace lowtide::testing
