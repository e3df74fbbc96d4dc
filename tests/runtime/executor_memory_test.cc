#include <fmt/format.h>

#include <fstream>

#include "base/error.h"
#include "device/allocation.h"
#include "device/allocation_recorder.h"
#include "device/dynamic_pool.h"
#include "planner/realize.h"
#include "runtime/training_sample.h"

namespace lowtide::runtime {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::ThrowsMessage;

class ExecutorMemory : public ExecutorOnEachDevice {};

ON_EACH_DEVICE(ExecutorMemory);

TEST_P(ExecutorMemory, MeasuredPeakIsTheArenaAndNothingIsOutside) {
  const Sample& s = measured();
  const Plan plan = keep_all_plan(s.graph);
  Executor executor(s.graph, plan, on_device());
  executor.initialize(5);
  const StepReport report = executor.step();
  EXPECT_EQ(report.measured_peak_bytes, plan.layout->arena_bytes);
  EXPECT_EQ(executor.block_bytes(), plan.layout->arena_bytes);
  EXPECT_EQ(report.outside_bytes, 0);
  EXPECT_GT(report.allocations, s.graph.num_ops() / 2);
}

TEST_P(ExecutorMemory, TheBlockHoldsGeneratorStatesOfRandomOpsThatRunAgain) {
  const Sample& s = measured();
  const Plan plan = recomputing_plan(s);
  const Executor executor(s.graph, plan, on_device());
  EXPECT_EQ(executor.block_bytes(),
            plan.layout->arena_bytes + generator_state_bytes(s.graph, device()));
}

TEST_P(ExecutorMemory, AStepAsksTheSystemsAllocatorForNothing) {
  const Sample& s = measured();
  const Plan plan = recomputing_plan(s);
  Executor executor(s.graph, plan, on_device());
  executor.initialize(5);
  device::AllocationRecorder witness(device().system());
  const auto serving =
      device().serve(witness, witness);  // requests that the executor does not serve end here
  executor.step();
  executor.step();
  EXPECT_EQ(witness.count(), 0);
}

TEST_P(ExecutorMemory, ThePoolTakesNoMoreThanItMayAndNamesTheOp) {
  const Sample& s = measured();
  const Plan plan = keep_all_plan(s.graph);
  Executor unlimited(s.graph, plan, in_pool());
  unlimited.initialize(5);
  const Bytes needed = unlimited.step().measured_peak_bytes;

  Executor enough(s.graph, plan, in_pool(needed));
  enough.initialize(5);
  EXPECT_EQ(enough.step().measured_peak_bytes, needed);
  EXPECT_EQ(enough.step().measured_peak_bytes, needed);

  Executor less(s.graph, plan, in_pool(needed - 1));
  less.initialize(5);
  EXPECT_THAT([&] { less.step(); },
              ThrowsMessage<device::PoolFull>(
                  AllOf(HasSubstr("op \""), HasSubstr(fmt::format("({} bytes)", needed)),
                        HasSubstr(fmt::format("({} bytes)", needed - 1)))));
  EXPECT_THROW(Executor(s.graph, plan, in_pool(64)), device::PoolFull);
}

TEST_P(ExecutorMemory, ResidentsOutliveIt) {
  const Sample& s = measured();
  for (const ExecutorOptions& options : both_memories()) {
    at::Tensor weight;
    {
      const Plan plan = keep_all_plan(s.graph);
      Executor executor(s.graph, plan, options);
      executor.initialize(5);
      weight = executor.resident(s.weight);
    }
    EXPECT_NE(weight.abs().sum().item<float>(), 0.0F);
  }
}

TEST_P(ExecutorMemory, ResidentsLieWithoutGapsAtTheirNaturalAlignment) {
  const Sample& s = measured();
  const Plan plan = keep_all_plan(s.graph);
  Executor executor(s.graph, plan, on_device());
  for (TensorId id : resident_ids(s.graph)) {
    const at::Tensor tensor = executor.resident(id);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(tensor.data_ptr()) % tensor.element_size(), 0U);
    EXPECT_TRUE(tensor.eq(0).all().item<bool>()) << "the block begins as zeros";
  }
}

TEST_P(ExecutorMemory, ValuesLieAtMultiplesOfTheGraphsAlignment) {
  const Sample& s = measured();
  const State usual = run_steps(s.graph, recomputing_plan(s), 2, on_device());
  for (const Bytes alignment : {512, 4096}) {
    // A block begins where PyTorch's allocator puts it.
    if (device().torch_device().is_cuda() && alignment > device().alignment()) continue;
    GraphData data = s.graph.data();
    data.alignment = alignment;
    const Graph aligned(std::move(data));
    Plan plan = recomputing_plan(s);
    plan.layout = layout::assign_addresses(aligned, plan,
                                           planner::packing_goal(aligned, Bytes{1} << 30, 0));
    expect_equal(run_steps(aligned, plan, 2, on_device()), usual);

    Executor executor(aligned, plan,
                      on_device({.overrun = ExecutorOptions::Overrun::reserve,
                                 .reserve_bytes = alignment + 64}));
    std::vector<TensorId> own;
    for (TensorId id = 0; id < aligned.num_tensors(); ++id) {
      const Tensor& tensor = aligned.tensor(id);
      if (tensor.kind == Kind::value && tensor.alias_of == kNone) own.push_back(id);
    }
    std::size_t seen = 0;
    executor.watch(own, [&](TensorId id, const at::Tensor& tensor) {
      ++seen;
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(tensor.data_ptr()) % alignment, 0U)
          << aligned.tensor(id).name;
    });
    executor.step();
    EXPECT_EQ(seen, own.size());
  }
}

/// Whether the convolution takes memory beside its result, as on most devices.
bool takes_scratch(const Sample& s) {
  return std::ranges::any_of(s.graph.op(s.conv).allocations,
                             [](const Allocation& a) { return a.output == -1; });
}

TEST_P(ExecutorMemory, StopsAtAnOverrunAndGoesOnAfterwards) {
  const Sample& s = measured();
  if (!takes_scratch(s)) GTEST_SKIP() << "this device's convolution takes no scratch memory";
  GraphData data = s.graph.data();
  Op& conv = data.ops[static_cast<std::size_t>(s.conv)];
  for (Allocation& a : conv.allocations) {
    if (a.output == -1) a.bytes /= 2;
  }
  const Graph shrunk(data);
  const Plan plan = keep_all_plan(shrunk);
  Executor executor(shrunk, plan, on_device());
  executor.initialize(5);
  for (int i = 0; i < 2; ++i) {
    EXPECT_THAT([&] { executor.step(); },
                ThrowsMessage<Error>(AllOf(HasSubstr(conv.name), HasSubstr("aten::convolution"),
                                           HasSubstr("bytes"))));
  }
}

TEST_P(ExecutorMemory, TakesAnOverrunFromTheReserve) {
  const Sample& s = measured();
  if (!takes_scratch(s)) GTEST_SKIP() << "this device's convolution takes no scratch memory";
  GraphData data = s.graph.data();
  for (Op& op : data.ops) {
    for (Allocation& a : op.allocations) {
      if (a.output == -1) a.bytes /= 2;
    }
  }
  data.ops[static_cast<std::size_t>(s.norm)].allocations.pop_back();
  const Graph shrunk(data);
  const Sample corrupt{shrunk, s.weight, s.mean, s.variance, s.loss,
                       s.conv, s.norm,   s.relu, s.dropout};
  const Plan plan = keep_all_plan(shrunk);
  const ExecutorOptions options =
      on_device({.overrun = ExecutorOptions::Overrun::reserve, .reserve_bytes = Bytes{1} << 20});
  Executor executor(shrunk, plan, options);
  executor.initialize(5);
  seed_generator(device(), 11);
  const StepReport report = executor.step();
  EXPECT_THAT(report.overruns, ::testing::Contains(HasSubstr("aten::convolution")));
  EXPECT_THAT(report.overruns, ::testing::Contains(HasSubstr("aten::native_batch_norm")));
  EXPECT_EQ(report.outside_bytes, 0);
  EXPECT_TRUE(at::equal(executor.output(s.loss).cpu(),
                        interpret_steps(s.graph, 1, reference()).outputs[0]));
  EXPECT_LE(report.measured_peak_bytes, executor.block_bytes());
}

TEST_P(ExecutorMemory, ASmallReserveIsNamedWhenItIsUsedUp) {
  const Sample& s = measured();
  if (!takes_scratch(s)) GTEST_SKIP() << "this device's convolution takes no scratch memory";
  GraphData data = s.graph.data();
  data.ops[static_cast<std::size_t>(s.conv)].allocations.back().bytes = 0;
  for (Allocation& a : data.ops[static_cast<std::size_t>(s.conv)].allocations) {
    if (a.output == -1) a.bytes = 0;
  }
  const Graph shrunk(data);
  const Plan plan = keep_all_plan(shrunk);
  const Bytes reserve = shrunk.alignment();
  Executor executor(
      shrunk, plan,
      on_device({.overrun = ExecutorOptions::Overrun::reserve, .reserve_bytes = reserve}));
  executor.initialize(5);
  EXPECT_THAT([&] { executor.step(); },
              ThrowsMessage<Error>(HasSubstr(fmt::format("reserve of {}", reserve))));
}

TEST_P(ExecutorMemory, ResultsThatLieElsewhereAreCopiedToTheirAddress) {
  const Sample& s = measured();
  GraphData data = s.graph.data();
  for (Op& op : data.ops) {
    if (op.type != "aten::mm") continue;
    op.workspace_bytes = op.allocations.at(0).bytes;  // as if the product were scratch
    op.allocations[0].output = -1;
  }
  const Graph moved(data);
  const Plan plan = keep_all_plan(moved);
  Executor executor(moved, plan, on_device());
  executor.initialize(5);
  seed_generator(device(), 11);
  EXPECT_THAT(executor.step().overruns, IsEmpty());
  EXPECT_TRUE(at::equal(executor.output(s.loss).cpu(),
                        interpret_steps(s.graph, 1, reference()).outputs[0]));
}

/// Resets and reads the resident set's high-water mark in bytes: the system's view.
Bytes high_water() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    if (word == "VmHWM:") {
      Bytes kilobytes = 0;
      status >> kilobytes;
      return kilobytes * 1024;
    }
  }
  return -1;
}
bool reset_high_water() { return static_cast<bool>(std::ofstream("/proc/self/clear_refs") << "5"); }

TEST(ExecutorOnCpu, TheResidentSetGrowsByTheArenaOnly) {
  GraphMaker m("large");
  const TensorId x = m.resident("x", {1 << 20}, kNormal);
  TensorId y = m.op1("aten::exp", {T{x}});
  std::vector<TensorId> kept{y};
  for (int i = 0; i < 12; ++i) kept.push_back(y = m.op1("aten::sin", {T{y}}));
  TensorId sum = kept[0];
  for (TensorId value : kept) sum = m.op1("aten::add.Tensor", {T{sum}, T{value}});
  const Graph graph = profiled(m.build({sum}), device::cpu_device());
  const Plan plan = keep_all_plan(graph);
  Executor executor(graph, plan);
  executor.initialize(1);
  if (!reset_high_water()) GTEST_SKIP() << "/proc/self/clear_refs may not be written here";
  const Bytes before = high_water();
  const StepReport report = executor.step();
  const Bytes grown = high_water() - before;
  constexpr Bytes kPages = Bytes{6} << 20;  // whole large pages at both ends, stacks of threads
  EXPECT_LE(grown, report.measured_peak_bytes + kPages);
  EXPECT_GE(grown, (report.measured_peak_bytes - graph.resident_bytes()) / 2);
}

}  // namespace
}  // namespace lowtide::runtime
