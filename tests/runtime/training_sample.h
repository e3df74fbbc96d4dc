#pragma once

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <map>

#include "cost/profile.h"
#include "device/each_device.h"
#include "layout/layout.h"
#include "plan/in_place.h"
#include "plan/lower.h"
#include "plan/replay.h"
#include "plan/verify.h"
#include "profile/profiler.h"
#include "runtime/executor.h"
#include "runtime/graph_maker.h"

namespace lowtide::runtime {

using Integers = std::vector<std::int64_t>;
using Memory = ExecutorOptions::Memory;

inline constexpr Initializer kNormal{Initializer::Kind::normal, 0, 0.1};
inline constexpr Initializer kOnes{Initializer::Kind::constant, 1, 0};
inline constexpr Initializer kZeros{};

/// A step with a convolution, batch norm with statistics, an activation that may be in place,
/// dropout, views, a matrix product, layer norm, an embedding and an update in place.
struct Sample {
  Graph graph;
  TensorId weight, mean, variance, loss;
  OpId conv, norm, relu, dropout;
};

inline Sample sample() {
  GraphMaker m("sample");
  const TensorId image = m.resident("image", {2, 3, 12, 12}, kNormal, DType::f32, Role::input);
  const TensorId tokens = m.resident("tokens", {2, 5}, kZeros, DType::i64, Role::input);
  const TensorId weight = m.resident("weight", {8, 3, 3, 3}, kNormal);
  const TensorId gain = m.resident("gain", {8}, kOnes);
  const TensorId shift = m.resident("shift", {8}, kZeros);
  const TensorId mean = m.resident("mean", {8}, kZeros, DType::f32, Role::buffer);
  const TensorId variance = m.resident("variance", {8}, kOnes, DType::f32, Role::buffer);
  const TensorId table = m.resident("table", {7, 8}, kNormal);
  const TensorId count = m.resident("count", {}, kZeros, DType::i64, Role::buffer);

  const TensorId conv =
      m.op1("aten::convolution", {T{image}, T{weight}, NoneArg(), Integers{1, 1}, Integers{1, 1},
                                  Integers{1, 1}, false, Integers{0, 0}, std::int64_t{1}});
  const OpId conv_op = 0;
  const TensorId norm =
      m.op("aten::native_batch_norm",
           {T{conv}, T{gain}, T{shift}, T{mean}, T{variance}, true, 0.1, 1e-5}, {3, 4})[0];
  const TensorId relu = m.op1("aten::relu", {T{norm}});
  const auto dropped = m.op("aten::native_dropout", {T{relu}, 0.4, true});
  const TensorId flat = m.op1("aten::view", {T{dropped[0]}, Integers{-1, 8}});
  const TensorId turned = m.op1("aten::t", {T{flat}});
  const TensorId product = m.op1("aten::mm", {T{turned}, T{flat}});
  const TensorId layer =
      m.op("aten::native_layer_norm", {T{product}, Integers{8}, T{gain}, T{shift}, 1e-5})[0];
  const TensorId rows = m.op1("aten::embedding", {T{table}, T{tokens}});
  const TensorId rows_flat = m.op1("aten::view", {T{rows}, Integers{-1, 8}});
  const TensorId scores = m.op1("aten::mm", {T{rows_flat}, T{layer}});
  const TensorId squash = m.op1("aten::tanh", {T{scores}});
  const TensorId loss = m.op1("aten::sum", {T{squash}});
  const TensorId grad = m.op1("aten::tanh_backward", {T{scores}, T{squash}});
  const TensorId again = m.op1("aten::mul.Tensor", {T{conv}, T{relu}});
  const TensorId masked = m.op1("aten::mul.Tensor", {T{again}, T{dropped[1]}});
  const TensorId total = m.op1("aten::sum.dim_IntList", {T{masked}, Integers{0, 2, 3}});
  m.op("aten::add_.Tensor", {T{shift}, T{total}}, {0});
  m.op("aten::add_.Scalar", {T{count}, std::int64_t{1}}, {0});
  const TensorId spread = m.op1("aten::mean", {T{grad}});
  return {m.build({loss, spread}), weight, mean, variance, loss, conv_op, 1, 2, 3};
}

/// The graph with what a device's kernels ask for.
inline Graph profiled(const Graph& graph, const device::ComputeDevice& device) {
  cost::Profile profile;
  profile::profile_ops(graph, profile, Control(), profile::Measure::lacking, device);
  return cost::priced(graph, profile);
}

/// What `make` gives, with its `graph` measured on the device. One per type and device.
template <typename Made>
const Made& measured_on(const device::ComputeDevice& device, Made (*make)()) {
  static std::map<const device::ComputeDevice*, Made> all;
  const auto known = all.find(&device);
  if (known != all.end()) return known->second;
  Made made = make();
  made.graph = profiled(made.graph, device);
  return all.emplace(&device, std::move(made)).first->second;
}

inline Plan with_layout(const Graph& graph, Plan plan) {
  plan.layout = layout::assign_addresses(graph, plan, {.alignment = graph.alignment()});
  const auto violation = verify(graph, plan);
  if (violation) throw std::logic_error(violation->message);
  return plan;
}

inline Plan keep_all_plan(const Graph& graph) { return with_layout(graph, keep_all(graph)); }

/// Reruns convolution, batch norm, activation and dropout before their later uses.
inline Plan recomputing_plan(const Sample& s) {
  std::vector<OpId> order;
  for (OpId id = 0; id < s.graph.num_ops(); ++id) {
    if (s.graph.op(id).type == "aten::mul.Tensor") {
      for (OpId again : {s.conv, s.norm, s.relu, s.dropout}) order.push_back(again);
    }
    order.push_back(id);
  }
  return with_layout(s.graph, with_in_place(s.graph, lower(s.graph, order)));
}

/// The final state after a training step, on the CPU.
struct State {
  std::vector<at::Tensor> residents;
  std::vector<at::Tensor> outputs;
  at::Tensor generator;
};

inline void seed_generator(const device::ComputeDevice& device, std::uint64_t seed) {
  device::default_generator(device).set_current_seed(seed);
}

inline at::Tensor generator_state(const device::ComputeDevice& device) {
  return at::Tensor(device::default_generator(device).get_state()).cpu().clone();
}

inline std::vector<TensorId> resident_ids(const Graph& graph) {
  std::vector<TensorId> ids;
  for (TensorId id = 0; id < graph.num_tensors(); ++id) {
    if (graph.tensor(id).kind == Kind::resident) ids.push_back(id);
  }
  return ids;
}

inline at::Tensor copied(const at::Tensor& tensor) { return tensor.clone().cpu(); }

inline State run_steps(const Graph& graph, const Plan& plan, int steps,
                       const ExecutorOptions& options) {
  Executor executor(graph, plan, options);
  executor.initialize(5);
  seed_generator(*options.device, 11);
  for (int i = 0; i < steps; ++i) {
    const StepReport report = executor.step();
    EXPECT_EQ(report.outside_bytes, 0);
    EXPECT_THAT(report.overruns, ::testing::IsEmpty());
  }
  State state;
  for (TensorId id : resident_ids(graph)) state.residents.push_back(copied(executor.resident(id)));
  for (TensorId id : graph.outputs()) state.outputs.push_back(copied(executor.output(id)));
  state.generator = generator_state(*options.device);
  return state;
}

inline State interpret_steps(const Graph& graph, int steps, const device::ComputeDevice& device) {
  const Plan plan = keep_all_plan(graph);
  Executor executor(graph, plan, {.device = &device});
  executor.initialize(5);
  std::map<TensorId, at::Tensor> residents;
  for (TensorId id : resident_ids(graph)) residents[id] = executor.resident(id).clone();
  seed_generator(device, 11);
  State state;
  for (int i = 0; i < steps; ++i) {
    const auto values = interpret(graph, residents, device.torch_device());
    state.outputs.clear();
    for (TensorId id : graph.outputs()) state.outputs.push_back(values.at(id).cpu());
  }
  for (const auto& [id, tensor] : residents) state.residents.push_back(tensor.cpu());
  state.generator = generator_state(device);
  return state;
}

/// Tests of executors, with a step whose ops were measured on the device.
class ExecutorOnEachDevice : public device::OnEachDevice {
 protected:
  const Sample& measured() const { return measured_on(device(), sample); }
  ExecutorOptions on_device(ExecutorOptions options = {}) const {
    options.device = &device();
    return options;
  }
  ExecutorOptions in_pool(Bytes bytes = Bytes{8} << 20) const {
    return on_device({.memory = Memory::pool, .pool_bytes = bytes});
  }
  std::vector<ExecutorOptions> both_memories() const { return {on_device(), in_pool()}; }
};

/// Also where both are no numbers.
inline bool same_bits(const at::Tensor& a, const at::Tensor& b) {
  const at::Tensor one = a.contiguous(), other = b.contiguous();
  return a.sizes() == b.sizes() && a.dtype() == b.dtype() &&
         std::memcmp(one.const_data_ptr(), other.const_data_ptr(), one.nbytes()) == 0;
}

inline void expect_equal(const State& a, const State& b) {
  ASSERT_EQ(a.residents.size(), b.residents.size());
  for (std::size_t i = 0; i < a.residents.size(); ++i) {
    EXPECT_TRUE(same_bits(a.residents[i], b.residents[i])) << "resident " << i;
  }
  for (std::size_t i = 0; i < a.outputs.size(); ++i) {
    EXPECT_TRUE(same_bits(a.outputs[i], b.outputs[i])) << "output " << i;
  }
  EXPECT_TRUE(same_bits(a.generator, b.generator)) << "generator";
}

}  // namespace lowtide::runtime
