#pragma once

#include <string>
#include <utility>
#include <vector>

#include "graph/graph.h"

namespace lowtide {

/// w (resident) and x (resident) -> mul -> a; view of a; add with an effect on the buffer b -> c.
///
///     0 w   1 x   2 b (resident)   3 a   4 v (view of a)   5 c
///     op 0: a = mul(w, x)   op 1: v = view(a)   op 2: c = norm(v, b), writes b
inline GraphData sample() {
  GraphData data;
  data.name = "sample";
  const auto tensor = [](std::string name, Bytes bytes, Kind kind, TensorId alias_of = kNone) {
    Tensor t;
    t.name = std::move(name);
    t.bytes = bytes;
    t.kind = kind;
    t.alias_of = alias_of;
    return t;
  };
  data.tensors = {tensor("w", 16, Kind::resident), tensor("x", 16, Kind::resident),
                  tensor("b", 8, Kind::resident),  tensor("a", 16, Kind::value),
                  tensor("v", 0, Kind::value, 3),  tensor("c", 32, Kind::value)};
  const auto op = [](std::string name, std::vector<TensorId> inputs,
                     std::vector<TensorId> outputs, double cost) {
    Op o;
    o.name = std::move(name);
    o.type = "aten::" + o.name;
    o.inputs = std::move(inputs);
    o.outputs = std::move(outputs);
    o.cost = cost;
    o.cost_estimated = false;
    return o;
  };
  data.ops = {op("mul", {0, 1}, {3}, 2), op("view", {3}, {4}, 0), op("norm", {4, 2}, {5}, 3)};
  data.ops[2].mutates = {1};
  data.outputs = {5};
  return data;
}

}  // namespace lowtide
