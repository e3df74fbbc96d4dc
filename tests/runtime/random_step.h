#pragma once

#include <random>
#include <vector>

#include "runtime/graph_maker.h"
#include "runtime/training_sample.h"

namespace lowtide::runtime {

/// Random ops on square matrices, and a random order in which some run again.
struct RandomStep {
  Graph graph;
  std::vector<OpId> order;
};

inline TensorId random_op(GraphMaker& m, TensorId a, TensorId b, std::uint32_t choice) {
  switch (choice % 8) {
    case 0: return m.op1("aten::mm", {T{a}, T{b}});
    case 1: return m.op1("aten::mul.Tensor", {T{a}, T{b}});
    case 2: return m.op1("aten::add.Tensor", {T{a}, T{b}});
    case 3: return m.op1("aten::tanh", {T{a}});
    case 4: return m.op1("aten::relu", {T{a}});
    case 5: return m.op("aten::native_dropout", {T{a}, 0.3, true})[0];
    case 6: return m.op1("aten::_softmax", {T{a}, std::int64_t{1}, false});
    default: return m.op1("aten::t", {T{a}});
  }
}

inline RandomStep random_step(std::uint32_t seed, std::int64_t side = 12) {
  std::mt19937 random(seed);
  GraphMaker m("random");
  std::vector<TensorId> values = {m.resident("x", {side, side}, kNormal),
                                  m.resident("w", {side, side}, kNormal)};
  for (int i = 0; i < 20; ++i) {
    const TensorId a = values[random() % values.size()], b = values[random() % values.size()];
    values.push_back(random_op(m, a, b, static_cast<std::uint32_t>(random())));
  }
  TensorId sum = values[2];
  for (std::size_t i = 3; i < values.size(); ++i) {
    sum = m.op1("aten::add.Tensor", {T{sum}, T{values[i]}});
  }
  m.op("aten::add_.Tensor", {T{values[1]}, T{sum}}, {0});
  const OpId update = static_cast<OpId>(m.data().ops.size()) - 1;
  RandomStep step{m.build({sum}), {}};
  for (OpId id = 0; id < step.graph.num_ops(); ++id) {
    step.order.push_back(id);
    const OpId again = static_cast<OpId>(random() % static_cast<std::uint32_t>(id + 1));
    if (id < update && random() % 2 == 0) step.order.push_back(again);
  }
  return step;
}

}  // namespace lowtide::runtime
