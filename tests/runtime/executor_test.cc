#include "runtime/executor.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "base/error.h"
#include "cost/profile.h"
#include "layout/layout.h"
#include "plan/lower.h"
#include "plan/replay.h"
#include "plan/verify.h"
#include "runtime/allocation.h"
#include "runtime/allocation_recorder.h"
#include "runtime/profiler.h"
#include "runtime/graph_maker.h"

namespace lowtide {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::ThrowsMessage;
using Integers = std::vector<std::int64_t>;
using Memory = ExecutorOptions::Memory;

constexpr Initializer kNormal{Initializer::Kind::normal, 0, 0.1};
constexpr Initializer kOnes{Initializer::Kind::constant, 1, 0};
constexpr Initializer kZeros{};

/// A step with a convolution, batch norm with statistics, an activation that may be in place,
/// dropout, views, a matrix product, layer norm, an embedding and an update in place.
struct Sample {
  Graph graph;
  TensorId weight, mean, variance, loss;
  OpId conv, norm, relu, dropout;
};

Sample sample() {
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

  const TensorId conv = m.op1("aten::convolution",
                              {T{image}, T{weight}, NoneArg(), Integers{1, 1}, Integers{1, 1},
                               Integers{1, 1}, false, Integers{0, 0}, std::int64_t{1}});
  const OpId conv_op = 0;
  const TensorId norm = m.op("aten::native_batch_norm",
                             {T{conv}, T{gain}, T{shift}, T{mean}, T{variance}, true, 0.1, 1e-5},
                             {3, 4})[0];
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

const Sample& profiled_sample() {
  static const Sample* const result = [] {
    Sample s = sample();
    Profile profile;
    profile_ops(s.graph, profile, Control());
    return new Sample{priced(s.graph, profile), s.weight, s.mean,    s.variance, s.loss,
                      s.conv,                   s.norm,   s.relu,    s.dropout};
  }();
  return *result;
}

Plan with_layout(const Graph& graph, Plan plan) {
  plan.layout = assign_addresses(graph, plan);
  const auto violation = verify(graph, plan);
  if (violation) throw std::logic_error(violation->message);
  return plan;
}

Plan keep_all_plan(const Graph& graph) { return with_layout(graph, keep_all(graph)); }

/// Convolution, batch norm, activation and dropout once more before their later uses.
Plan recomputing_plan(const Sample& s) {
  std::vector<OpId> order;
  for (OpId id = 0; id < s.graph.num_ops(); ++id) {
    if (s.graph.op(id).type == "aten::mul.Tensor") {
      for (OpId again : {s.conv, s.norm, s.relu, s.dropout}) order.push_back(again);
    }
    order.push_back(id);
  }
  return with_layout(s.graph, with_in_place(s.graph, lower(s.graph, order)));
}

/// Everything that a training step leaves behind.
struct State {
  std::vector<at::Tensor> residents;
  std::vector<at::Tensor> outputs;
  at::Tensor generator;
};

at::Tensor generator_state() {
  return at::Tensor(at::detail::getDefaultCPUGenerator().get_state()).clone();
}

std::vector<TensorId> resident_ids(const Graph& graph) {
  std::vector<TensorId> ids;
  for (TensorId id = 0; id < graph.num_tensors(); ++id) {
    if (graph.tensor(id).kind == Kind::resident) ids.push_back(id);
  }
  return ids;
}

State run_steps(const Sample& s, const Plan& plan, int steps, const ExecutorOptions& options = {}) {
  Executor executor(s.graph, plan, options);
  executor.initialize(5);
  at::manual_seed(11);
  for (int i = 0; i < steps; ++i) {
    const StepReport report = executor.step();
    EXPECT_EQ(report.outside_bytes, 0);
    EXPECT_THAT(report.overruns, IsEmpty());
  }
  State state;
  for (TensorId id : resident_ids(s.graph)) state.residents.push_back(executor.resident(id).clone());
  for (TensorId id : s.graph.outputs()) state.outputs.push_back(executor.output(id).clone());
  state.generator = generator_state();
  return state;
}

State interpret_steps(const Sample& s, int steps) {
  Executor executor(s.graph, keep_all_plan(s.graph));
  executor.initialize(5);
  std::map<TensorId, at::Tensor> residents;
  for (TensorId id : resident_ids(s.graph)) residents[id] = executor.resident(id).clone();
  at::manual_seed(11);
  State state;
  for (int i = 0; i < steps; ++i) {
    const auto values = interpret(s.graph, residents);
    state.outputs.clear();
    for (TensorId id : s.graph.outputs()) state.outputs.push_back(values.at(id));
  }
  for (const auto& [id, tensor] : residents) state.residents.push_back(tensor);
  state.generator = generator_state();
  return state;
}

void expect_equal(const State& a, const State& b) {
  ASSERT_EQ(a.residents.size(), b.residents.size());
  for (std::size_t i = 0; i < a.residents.size(); ++i) {
    EXPECT_TRUE(at::equal(a.residents[i], b.residents[i])) << "resident " << i;
  }
  for (std::size_t i = 0; i < a.outputs.size(); ++i) {
    EXPECT_TRUE(at::equal(a.outputs[i], b.outputs[i])) << "output " << i;
  }
  EXPECT_TRUE(at::equal(a.generator, b.generator)) << "generator";
}

TEST(Executor, ComputesWhatPlainInterpretationComputes) {
  const Sample& s = profiled_sample();
  expect_equal(run_steps(s, keep_all_plan(s.graph), 3), interpret_steps(s, 3));
}

TEST(Executor, RecomputationIsBitIdentical) {
  const Sample& s = profiled_sample();
  const Plan plan = recomputing_plan(s);
  ASSERT_GT(plan.cost, keep_all_plan(s.graph).cost);
  expect_equal(run_steps(s, plan, 3), interpret_steps(s, 3));
}

TEST(Executor, PoolGivesTheSameBits) {
  const Sample& s = profiled_sample();
  const ExecutorOptions pool{.memory = Memory::pool};
  expect_equal(run_steps(s, recomputing_plan(s), 3, pool), interpret_steps(s, 3));
  expect_equal(run_steps(s, keep_all_plan(s.graph), 3, pool), interpret_steps(s, 3));
}

TEST(Executor, StatisticsAreUpdatedOncePerStep) {
  const Sample& s = profiled_sample();
  const State once = run_steps(s, keep_all_plan(s.graph), 1);
  const State recomputed = run_steps(s, recomputing_plan(s), 1);
  const auto position = [&](TensorId id) {
    const auto ids = resident_ids(s.graph);
    return static_cast<std::size_t>(std::ranges::find(ids, id) - ids.begin());
  };
  EXPECT_FALSE(at::equal(once.residents[position(s.mean)], at::zeros({8})));
  EXPECT_TRUE(at::equal(once.residents[position(s.mean)], recomputed.residents[position(s.mean)]));
  EXPECT_TRUE(
      at::equal(once.residents[position(s.variance)], recomputed.residents[position(s.variance)]));
}

TEST(Executor, InPlaceWritesHappenAndChangeNothing) {
  const Sample& s = profiled_sample();
  const Plan plan = recomputing_plan(s);
  EXPECT_GT(std::ranges::count_if(plan.actions, [](const Action& a) { return !a.in_place.empty(); }),
            0);
}

TEST(Executor, MeasuredPeakIsTheArenaAndNothingIsOutside) {
  const Sample& s = profiled_sample();
  const Plan plan = keep_all_plan(s.graph);
  Executor executor(s.graph, plan);
  executor.initialize(5);
  const StepReport report = executor.step();
  EXPECT_EQ(report.measured_peak_bytes, plan.layout->arena_bytes);
  EXPECT_EQ(executor.block_bytes(), plan.layout->arena_bytes);
  EXPECT_EQ(report.outside_bytes, 0);
  EXPECT_GT(report.allocations, s.graph.num_ops() / 2);
}

TEST(Executor, TheBlockHoldsGeneratorStatesOfRandomOpsThatRunAgain) {
  const Sample& s = profiled_sample();
  const Plan plan = recomputing_plan(s);
  const Executor executor(s.graph, plan);
  EXPECT_EQ(executor.block_bytes(), plan.layout->arena_bytes + generator_state_bytes(s.graph));
}

TEST(Executor, AStepAsksTheSystemsAllocatorForNothing) {
  const Sample& s = profiled_sample();
  const Plan plan = recomputing_plan(s);
  Executor executor(s.graph, plan);
  executor.initialize(5);
  AllocationRecorder witness;
  const Serving serving(witness);  // what the executor does not serve itself ends here
  executor.step();
  executor.step();
  EXPECT_EQ(witness.count(), 0);
}

/// The resident set's high-water mark in bytes, and its reset: what the system sees.
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

TEST(Executor, TheResidentSetGrowsByTheArenaOnly) {
  GraphMaker m("large");
  const TensorId x = m.resident("x", {1 << 20}, kNormal);
  TensorId y = m.op1("aten::exp", {T{x}});
  std::vector<TensorId> kept{y};
  for (int i = 0; i < 12; ++i) kept.push_back(y = m.op1("aten::sin", {T{y}}));
  TensorId sum = kept[0];
  for (TensorId value : kept) sum = m.op1("aten::add.Tensor", {T{sum}, T{value}});
  const Graph bare = m.build({sum});
  Profile profile;
  profile_ops(bare, profile, Control());
  const Graph graph = priced(bare, profile);
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

TEST(Executor, StopsAtAnOverrunAndGoesOnAfterwards) {
  const Sample& s = profiled_sample();
  GraphData data = s.graph.data();
  Op& conv = data.ops[static_cast<std::size_t>(s.conv)];
  for (Allocation& a : conv.allocations) {
    if (a.output == -1) a.bytes /= 2;
  }
  const Graph shrunk(data);
  const Plan plan = keep_all_plan(shrunk);
  Executor executor(shrunk, plan);
  executor.initialize(5);
  for (int i = 0; i < 2; ++i) {
    EXPECT_THAT([&] { executor.step(); },
                ThrowsMessage<Error>(AllOf(HasSubstr(conv.name), HasSubstr("aten::convolution"),
                                           HasSubstr("bytes"))));
  }
}

TEST(Executor, TakesAnOverrunFromTheReserve) {
  const Sample& s = profiled_sample();
  GraphData data = s.graph.data();
  for (Op& op : data.ops) {
    for (Allocation& a : op.allocations) {
      if (a.output == -1) a.bytes /= 2;
    }
  }
  data.ops[static_cast<std::size_t>(s.norm)].allocations.pop_back();
  const Graph shrunk(data);
  const Sample corrupt{shrunk, s.weight, s.mean, s.variance, s.loss, s.conv, s.norm, s.relu, s.dropout};
  const Plan plan = keep_all_plan(shrunk);
  const ExecutorOptions options{.overrun = ExecutorOptions::Overrun::reserve,
                                .reserve_bytes = Bytes{1} << 20};
  Executor executor(shrunk, plan, options);
  executor.initialize(5);
  at::manual_seed(11);
  const StepReport report = executor.step();
  EXPECT_THAT(report.overruns, ::testing::Contains(HasSubstr("aten::convolution")));
  EXPECT_THAT(report.overruns, ::testing::Contains(HasSubstr("aten::native_batch_norm")));
  EXPECT_EQ(report.outside_bytes, 0);
  EXPECT_TRUE(at::equal(executor.output(s.loss), interpret_steps(s, 1).outputs[0]));
  EXPECT_LE(report.measured_peak_bytes, executor.block_bytes());
}

TEST(Executor, ASmallReserveIsNamedWhenItIsUsedUp) {
  const Sample& s = profiled_sample();
  GraphData data = s.graph.data();
  data.ops[static_cast<std::size_t>(s.conv)].allocations.back().bytes = 0;
  for (Allocation& a : data.ops[static_cast<std::size_t>(s.conv)].allocations) {
    if (a.output == -1) a.bytes = 0;
  }
  const Graph shrunk(data);
  const Plan plan = keep_all_plan(shrunk);
  Executor executor(shrunk, plan,
                    {.overrun = ExecutorOptions::Overrun::reserve, .reserve_bytes = 64});
  executor.initialize(5);
  EXPECT_THAT([&] { executor.step(); }, ThrowsMessage<Error>(HasSubstr("reserve of 64")));
}

TEST(Executor, ResultsThatLieElsewhereAreCopiedToTheirAddress) {
  const Sample& s = profiled_sample();
  GraphData data = s.graph.data();
  for (Op& op : data.ops) {
    if (op.type != "aten::mm") continue;
    op.workspace_bytes = op.allocations.at(0).bytes;  // as if the product were scratch
    op.allocations[0].output = -1;
  }
  const Graph moved(data);
  const Plan plan = keep_all_plan(moved);
  Executor executor(moved, plan);
  executor.initialize(5);
  at::manual_seed(11);
  EXPECT_THAT(executor.step().overruns, IsEmpty());
  EXPECT_TRUE(at::equal(executor.output(s.loss), interpret_steps(s, 1).outputs[0]));
}

TEST(Executor, WatchersSeeTheFirstExecutionOnly) {
  const Sample& s = profiled_sample();
  const TensorId conv = s.graph.op(s.conv).outputs[0];
  const TensorId view = s.graph.op(4).outputs[0];
  ASSERT_TRUE(s.graph.is_view_op(4));
  for (const Memory memory : {Memory::arena, Memory::pool}) {
    const Plan plan = recomputing_plan(s);
    Executor executor(s.graph, plan, {.memory = memory});
    executor.initialize(5);
    std::vector<TensorId> seen;
    executor.watch({conv, view}, [&](TensorId id, const at::Tensor& tensor) {
      EXPECT_EQ(tensor.sizes(), at::IntArrayRef(s.graph.tensor(id).shape));
      seen.push_back(id);
    });
    executor.step();
    executor.step();
    EXPECT_EQ(seen, (std::vector{conv, view, conv, view}));
    executor.watch({}, {});
    executor.step();
    EXPECT_EQ(seen.size(), 4U);
  }
}

TEST(Executor, RecordsTimesAndMemoryPerAction) {
  const Sample& s = profiled_sample();
  const Plan plan = recomputing_plan(s);
  for (const Memory memory : {Memory::arena, Memory::pool}) {
    Executor executor(s.graph, plan, {.memory = memory, .record_times = true});
    executor.initialize(5);
    const StepReport report = executor.step();
    EXPECT_EQ(report.action_seconds.size(), plan.actions.size());
    ASSERT_EQ(report.action_memory.size(), plan.actions.size());
    EXPECT_GE(report.action_memory.back(), s.graph.resident_bytes());
  }
}

TEST(Executor, ResidentsOutliveIt) {
  const Sample& s = profiled_sample();
  for (const Memory memory : {Memory::arena, Memory::pool}) {
    at::Tensor weight;
    {
      const Plan plan = keep_all_plan(s.graph);
      Executor executor(s.graph, plan, {.memory = memory});
      executor.initialize(5);
      weight = executor.resident(s.weight);
    }
    EXPECT_NE(weight.abs().sum().item<float>(), 0.0F);
  }
}

TEST(Executor, ResidentsLieWithoutGapsAtTheirNaturalAlignment) {
  const Sample& s = profiled_sample();
  const Plan plan = keep_all_plan(s.graph);
  Executor executor(s.graph, plan);
  for (TensorId id : resident_ids(s.graph)) {
    const at::Tensor tensor = executor.resident(id);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(tensor.data_ptr()) % tensor.element_size(), 0U);
    EXPECT_TRUE(tensor.eq(0).all().item<bool>()) << "the block begins as zeros";
  }
}

TEST(Executor, RefusesWhatCannotRun) {
  const Sample& s = profiled_sample();
  Plan bare = keep_all(s.graph);
  EXPECT_THAT([&] { Executor(s.graph, bare); }, ThrowsMessage<InputError>(HasSubstr("addresses")));

  const Graph estimated = sample().graph;
  const Plan plan = with_layout(estimated, keep_all(estimated));
  EXPECT_THAT([&] { Executor(estimated, plan); },
              ThrowsMessage<InputError>(AllOf(HasSubstr("not profiled"), HasSubstr("convolution"))));

  GraphData data = s.graph.data();
  for (Op& op : data.ops) op.args.clear();
  const Graph planned_only(data);
  EXPECT_THAT([&] { Executor(planned_only, keep_all_plan(planned_only)); },
              ThrowsMessage<InputError>(HasSubstr("no arguments")));

  Plan moving = keep_all_plan(s.graph);
  moving.actions.push_back({Verb::offload, s.loss, {}});
  EXPECT_THAT([&] { Executor(s.graph, moving); },
              ThrowsMessage<InputError>(HasSubstr("between memories")));
}

TEST(Executor, NamesAResidentOrOutputThatIsNone) {
  const Sample& s = profiled_sample();
  const Plan plan = keep_all_plan(s.graph);
  Executor executor(s.graph, plan);
  EXPECT_THROW(executor.resident(s.loss), InputError);
  EXPECT_THROW(executor.output(s.loss), InputError);
  executor.initialize(5);
  executor.step();
  EXPECT_NO_THROW(executor.output(s.loss));
  EXPECT_THROW(executor.output(s.graph.op(s.conv).outputs[0]), InputError);
}

TEST(Executor, InitializesFromTheSeedAlone) {
  const Sample& s = profiled_sample();
  const Plan plan = keep_all_plan(s.graph);
  const auto weight = [&](std::uint64_t seed) {
    Executor executor(s.graph, plan);
    executor.initialize(seed);
    return executor.resident(s.weight).clone();
  };
  const at::Tensor before = generator_state();
  const at::Tensor first = weight(1);
  EXPECT_TRUE(at::equal(first, weight(1)));
  EXPECT_FALSE(at::equal(first, weight(2)));
  EXPECT_TRUE(at::equal(before, generator_state()));
}

TEST(Executor, InitializersOfAllKinds) {
  using Kind = Initializer::Kind;
  GraphMaker m("kinds");
  const TensorId range = m.resident("range", {5}, {Kind::arange, 0, 0}, DType::i64);
  const TensorId causal = m.resident("causal", {3, 3}, {Kind::causal, 0, 0}, DType::boolean);
  const TensorId uniform = m.resident("uniform", {1000}, {Kind::uniform, 2, 3});
  const TensorId constant = m.resident("constant", {2}, {Kind::constant, 4, 0});
  const TensorId out = m.op1("aten::view", {T{constant}, Integers{2, 1}});
  const Graph graph = m.build({out});
  const Plan plan = keep_all_plan(graph);
  Executor executor(graph, plan);
  executor.initialize(1);
  EXPECT_TRUE(at::equal(executor.resident(range), at::arange(5)));
  EXPECT_TRUE(at::equal(executor.resident(causal), at::ones({3, 3}, at::kBool).tril()));
  EXPECT_GE(executor.resident(uniform).min().item<float>(), 2);
  EXPECT_LT(executor.resident(uniform).max().item<float>(), 3);
  EXPECT_TRUE(at::equal(executor.resident(constant), at::full({2}, 4.0)));
}

}  // namespace
}  // namespace lowtide
