#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "cuda/cuda_device.h"
#include "fake_c10_cuda.h"
#include "planner/planner.h"
#include "planner/realize.h"
#include "runtime/training_sample.h"

namespace lowtide::cuda {
namespace {

using runtime::Executor;
using runtime::ExecutorOptions;
using runtime::GraphMaker;
using runtime::Integers;
using runtime::T;

const device::ComputeDevice& first_gpu() { return cuda_device(0, "Fake GPU, CUDA 13.0"); }

/// A chain of products and activations, which is worth to compute again, and an update.
Graph step_graph() {
  GraphMaker m("step");
  const TensorId input = m.resident("input", {32, 16}, runtime::kNormal, DType::f32, Role::input);
  const TensorId weight = m.resident("weight", {16, 16}, runtime::kNormal);
  std::vector<TensorId> kept;
  TensorId x = input;
  for (int i = 0; i < 6; ++i) {
    x = m.op1("aten::mm", {T{x}, T{weight}});
    kept.push_back(x);
    x = m.op1("aten::tanh", {T{x}});
  }
  TensorId grad = x;
  for (std::size_t i = kept.size(); i-- > 0;) {
    grad = m.op1("aten::mul.Tensor", {T{grad}, T{kept[i]}});
  }
  const TensorId turned = m.op1("aten::t", {T{input}});
  const TensorId gradient = m.op1("aten::mm", {T{turned}, T{grad}});
  const TensorId loss = m.op1("aten::sum", {T{gradient}});
  m.op("aten::add_.Tensor", {T{weight}, T{gradient}}, {0});
  return m.build({loss});
}

Graph measured_on(const Graph& graph, const device::ComputeDevice& device) {
  cost::Profile profile;
  profile::profile_ops(graph, profile, Control(), profile::Measure::lacking, device);
  return cost::priced(graph, profile);
}

/// The weight and the loss after two steps.
std::vector<at::Tensor> trained(const Graph& graph, const Plan& plan,
                                const device::ComputeDevice& device) {
  Executor executor(graph, plan, {.device = &device});
  executor.initialize(5);
  for (int i = 0; i < 2; ++i) {
    const runtime::StepReport report = executor.step();
    EXPECT_EQ(report.outside_bytes, 0);
    EXPECT_THAT(report.overruns, ::testing::IsEmpty());
    EXPECT_EQ(report.measured_peak_bytes, plan.layout->arena_bytes);
  }
  return {executor.resident(1).cpu(), executor.output(graph.outputs()[0]).cpu()};
}

TEST(Step, OnAGpuHasTheCpusBitsWithinABudget) {
  const Graph graph = measured_on(step_graph(), first_gpu());
  EXPECT_EQ(graph.alignment(), 512);
  const Bytes keep_all = keep_all_reference(graph).peak_bytes;
  Control control(0.3);
  const planner::Planned planned =
      planner::plan_within(graph, strategy::default_strategy(), keep_all * 3 / 4, {}, control);
  ASSERT_TRUE(planned.plan) << planned.message;
  EXPECT_GT(planned.overhead(), 0) << "something runs again";

  const Graph on_cpu = measured_on(step_graph(), device::cpu_device());
  const auto expected = trained(on_cpu, runtime::keep_all_plan(on_cpu), device::cpu_device());
  const auto found = trained(graph, *planned.plan, first_gpu());
  EXPECT_TRUE(at::equal(found[0], expected[0]));
  EXPECT_TRUE(at::equal(found[1], expected[1]));
}

TEST(Step, OfAnExecutorTakesOneBlockOfTheCachingAllocator) {
  const Graph graph = measured_on(step_graph(), first_gpu());
  Plan plan = keep_all(graph);
  plan = planner::with_addresses(graph, std::move(plan), Bytes{1} << 30, 0, Control());
  Executor executor(graph, plan, {.device = &first_gpu()});
  executor.initialize(5);
  executor.step();  // makes views, and the workspaces of this thread
  const std::size_t before = FakeNative::instance().live_blocks();
  FakeNative::instance().forget_calls();
  executor.step();
  EXPECT_THAT(FakeNative::instance().calls(), ::testing::Not(::testing::Contains("allocate")));
  EXPECT_EQ(FakeNative::instance().live_blocks(), before);
}

}  // namespace
}  // namespace lowtide::cuda
