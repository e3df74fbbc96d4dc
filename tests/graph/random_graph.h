#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace lowtide {

/// Draws valid graphs that use every key of the format.
class RandomGraph {
 public:
  explicit RandomGraph(std::uint64_t seed) : random_(seed) {}

  GraphData draw() {
    data_.name = "random \"graph\" \xc3\xa9";
    data_.cost_unit = pick(std::vector<std::string>{"us", "ns", "flops"});
    if (chance(2)) data_.device = "a device";
    if (chance(2)) data_.extra = R"({"made_by":{"a":[1,2.5,null]}})";
    residents_ = 1 + below(5);
    for (int i = 0; i < residents_; ++i) data_.tensors.push_back(resident());
    for (int i = below(30); i > 0; --i) data_.ops.push_back(op());
    for (TensorId id = 0; id < tensors(); ++id) {
      if (chance(5)) data_.outputs.push_back(id);
    }
    return data_;
  }

 private:
  int below(int n) { return static_cast<int>(random_() % static_cast<unsigned>(n)); }
  bool chance(int one_in) { return below(one_in) == 0; }
  double number() { return std::uniform_real_distribution<>(-1, 1)(random_); }
  template <typename List>
  typename List::value_type pick(const List& list) {
    return list[random_() % list.size()];
  }
  int tensors() const { return static_cast<int>(data_.tensors.size()); }
  const Tensor& tensor(TensorId id) const { return data_.tensors[static_cast<std::size_t>(id)]; }

  Tensor resident() {
    Tensor t;
    t.name = "resident" + std::to_string(tensors());
    t.kind = Kind::resident;
    t.bytes = static_cast<Bytes>(random_() >> 20);
    t.role = static_cast<Role>(below(static_cast<int>(Role::loss) + 1));
    using Init = Initializer::Kind;
    const std::vector<std::optional<Initializer>> initializers{
        std::nullopt,
        Initializer{Init::zeros, 0, 0},
        Initializer{Init::constant, number(), 0},
        Initializer{Init::uniform, number(), number()},
        Initializer{Init::normal, number(), number()},
        Initializer{Init::arange, 0, 0},
        Initializer{Init::causal, 0, 0}};
    t.init = pick(initializers);
    return t;
  }

  /// Of an op with these inputs.
  Tensor value(const std::vector<TensorId>& inputs) {
    Tensor t;
    t.name = "t" + std::to_string(tensors());
    if (!inputs.empty() && chance(3)) {
      const TensorId seen = pick(inputs);
      t.alias_of = tensor(seen).alias_of == kNone ? seen : tensor(seen).alias_of;
    } else {
      t.bytes = below(1'000'000);
    }
    if (chance(2)) {
      t.dtype = static_cast<DType>(below(10));
      for (int d = below(4); d > 0; --d) t.shape.push_back(below(100));
      if (chance(2)) t.strides = t.shape;
    }
    if (chance(8)) t.gradient_of = below(residents_);
    if (chance(8)) t.extra = R"({"note":"kept"})";
    return t;
  }

  Op op() {
    Op o;
    o.name = "op" + std::to_string(data_.ops.size());
    o.type = "aten::something.Tensor";
    for (int k = below(4); k > 0; --k) o.inputs.push_back(below(tensors()));
    for (int k = below(3); k > 0; --k) {
      data_.tensors.push_back(value(o.inputs));
      o.outputs.push_back(tensors() - 1);
    }
    o.cost = std::exp(20 * number());
    o.cost_estimated = chance(2);
    o.workspace_bytes = below(1000);
    o.phase = static_cast<Phase>(below(3));
    o.recomputable = !chance(4);
    o.random = chance(4);
    add_permissions(o);
    add_arguments(o);
    if (o.workspace_bytes > 8) o.allocations.push_back({o.workspace_bytes / 2, -1, 3});
    if (!o.outputs.empty() && chance(2)) o.allocations.push_back({5, 0, 0});
    if (chance(8)) o.extra = R"({"line":7})";
    return o;
  }

  void add_permissions(Op& o) {
    const auto arity = static_cast<int>(o.inputs.size());
    for (int k = 0; k < static_cast<int>(o.outputs.size()) && arity > 0; ++k) {
      const bool view = tensor(o.outputs[static_cast<std::size_t>(k)]).alias_of != kNone;
      if (!view && chance(2)) o.inplace.push_back({k, below(arity)});
    }
    for (int k = 0; k < arity; ++k) {
      const bool resident = o.inputs[static_cast<std::size_t>(k)] < residents_;
      if (resident && chance(3)) o.mutates.push_back(k);
    }
  }

  void add_arguments(Op& o) {
    const double infinity = std::numeric_limits<double>::infinity();
    const std::vector<Argument> arguments{NoneArg{},
                                          true,
                                          false,
                                          std::int64_t{-7},
                                          1.0,
                                          1e300,
                                          number(),
                                          infinity,
                                          -infinity,
                                          DType::bf16,
                                          std::string("mean"),
                                          TensorListArg{},
                                          std::vector<std::int64_t>{},
                                          std::vector<std::int64_t>{1, -2, std::int64_t{1} << 62},
                                          std::vector<double>{},
                                          std::vector<double>{0, 1, infinity, number()}};
    for (int k = below(6); k > 0; --k) o.args.push_back(pick(arguments));
    const auto arity = static_cast<int>(o.inputs.size());
    if (arity > 0) o.args.push_back(TensorArg{below(arity)});
    if (arity > 0) o.args.push_back(TensorListArg{{0, below(arity)}});
  }

  std::mt19937_64 random_;
  GraphData data_;
  int residents_ = 0;
};

}  // namespace lowtide
