#include "runtime/executor.h"

#include "base/error.h"
#include "runtime/random_step.h"
#include "runtime/training_sample.h"
#include "support/sweep.h"

namespace lowtide::runtime {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

class ExecutorTest : public ExecutorOnEachDevice {};

ON_EACH_DEVICE(ExecutorTest);

TEST_P(ExecutorTest, ComputesWhatPlainInterpretationComputes) {
  const Graph& graph = measured().graph;
  const State expected = interpret_steps(graph, 3, reference());
  for (const ExecutorOptions& options : both_memories()) {
    expect_equal(run_steps(graph, keep_all_plan(graph), 3, options), expected);
  }
}

TEST_P(ExecutorTest, RecomputationIsBitIdentical) {
  const Graph& graph = measured().graph;
  const Plan plan = recomputing_plan(measured());
  ASSERT_GT(plan.cost, keep_all_plan(graph).cost);
  const State expected = interpret_steps(graph, 3, reference());
  for (const ExecutorOptions& options : both_memories()) {
    expect_equal(run_steps(graph, plan, 3, options), expected);
  }
}

TEST_P(ExecutorTest, StatisticsAreUpdatedOncePerStep) {
  const Sample& s = measured();
  const State once = run_steps(s.graph, keep_all_plan(s.graph), 1, on_device());
  const State recomputed = run_steps(s.graph, recomputing_plan(s), 1, on_device());
  const auto position = [&](TensorId id) {
    const auto ids = resident_ids(s.graph);
    return static_cast<std::size_t>(std::ranges::find(ids, id) - ids.begin());
  };
  EXPECT_FALSE(at::equal(once.residents[position(s.mean)], at::zeros({8})));
  EXPECT_TRUE(at::equal(once.residents[position(s.mean)], recomputed.residents[position(s.mean)]));
  EXPECT_TRUE(
      at::equal(once.residents[position(s.variance)], recomputed.residents[position(s.variance)]));
}

TEST_P(ExecutorTest, InPlaceWritesHappenAndChangeNothing) {
  const Plan plan = recomputing_plan(measured());
  EXPECT_GT(
      std::ranges::count_if(plan.actions, [](const Action& a) { return !a.in_place.empty(); }), 0);
}

TEST_P(ExecutorTest, WatchersSeeTheFirstExecutionOnly) {
  const Sample& s = measured();
  const TensorId conv = s.graph.op(s.conv).outputs[0];
  const TensorId view = s.graph.op(4).outputs[0];
  ASSERT_TRUE(s.graph.is_view_op(4));
  for (const ExecutorOptions& options : both_memories()) {
    const Plan plan = recomputing_plan(s);
    Executor executor(s.graph, plan, options);
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

TEST_P(ExecutorTest, RecordsTimesAndMemoryPerAction) {
  const Sample& s = measured();
  const Plan plan = recomputing_plan(s);
  for (ExecutorOptions options : both_memories()) {
    options.record_times = true;
    Executor executor(s.graph, plan, options);
    executor.initialize(5);
    const StepReport report = executor.step();
    EXPECT_EQ(report.action_seconds.size(), plan.actions.size());
    ASSERT_EQ(report.action_memory.size(), plan.actions.size());
    EXPECT_GE(report.action_memory.back(), s.graph.resident_bytes());
  }
}

TEST_P(ExecutorTest, RefusesWhatCannotRun) {
  const Sample& s = measured();
  Plan bare = keep_all(s.graph);
  EXPECT_THAT([&] { Executor(s.graph, bare, on_device()); },
              ThrowsMessage<InputError>(HasSubstr("addresses")));

  const Graph estimated = sample().graph;
  const Plan plan = with_layout(estimated, keep_all(estimated));
  EXPECT_THAT(
      [&] { Executor(estimated, plan, on_device()); },
      ThrowsMessage<InputError>(AllOf(HasSubstr("not profiled"), HasSubstr("convolution"))));

  GraphData data = s.graph.data();
  for (Op& op : data.ops) op.args.clear();
  const Graph planned_only(data);
  EXPECT_THAT([&] { Executor(planned_only, keep_all_plan(planned_only), on_device()); },
              ThrowsMessage<InputError>(HasSubstr("no arguments")));

  Plan moving = keep_all_plan(s.graph);
  moving.actions.push_back({Verb::offload, s.loss, {}});
  EXPECT_THAT([&] { Executor(s.graph, moving, on_device()); },
              ThrowsMessage<InputError>(HasSubstr("to slower memory")));
}

TEST_P(ExecutorTest, NamesAResidentOrOutputThatIsNone) {
  const Sample& s = measured();
  const Plan plan = keep_all_plan(s.graph);
  Executor executor(s.graph, plan, on_device());
  EXPECT_THROW(executor.resident(s.loss), InputError);
  EXPECT_THROW(executor.output(s.loss), InputError);
  executor.initialize(5);
  executor.step();
  EXPECT_NO_THROW(executor.output(s.loss));
  EXPECT_THROW(executor.output(s.graph.op(s.conv).outputs[0]), InputError);
}

TEST_P(ExecutorTest, RefusesAddressesOfElementsInAnotherLayout) {
  GraphMaker m("strided");
  const TensorId x = m.resident("x", {2, 3}, {Initializer::Kind::normal, 0, 1});
  const TensorId turned = m.op1("aten::t", {T{x}});
  const TensorId sum = m.op1("aten::add.Tensor", {T{turned}, T{turned}});
  m.op1("aten::as_strided", {T{sum}, Integers{2, 2}, Integers{1, 2}});
  const auto run = [&](GraphData data) {
    data.outputs = {static_cast<TensorId>(data.tensors.size()) - 1};
    const Graph graph = profiled(Graph(std::move(data)), device());
    const Plan plan = keep_all_plan(graph);
    Executor executor(graph, plan, on_device());
    executor.initialize(1);
    executor.step();
  };
  EXPECT_NO_THROW(run(m.data()));
  m.data().tensors[static_cast<std::size_t>(sum)].strides = {};
  EXPECT_THAT([&] { run(m.data()); }, ThrowsMessage<Error>(HasSubstr("in another layout")));
}

TEST_P(ExecutorTest, InitializesFromTheSeedAlone) {
  const Sample& s = measured();
  const Plan plan = keep_all_plan(s.graph);
  const auto weight = [&](std::uint64_t seed) {
    Executor executor(s.graph, plan, on_device());
    executor.initialize(seed);
    return copied(executor.resident(s.weight));
  };
  const at::Tensor before = generator_state(device());
  const at::Tensor first = weight(1);
  EXPECT_TRUE(at::equal(first, weight(1)));
  EXPECT_FALSE(at::equal(first, weight(2)));
  EXPECT_TRUE(at::equal(before, generator_state(device())));
}

TEST_P(ExecutorTest, InitializersOfAllKinds) {
  using Kind = Initializer::Kind;
  GraphMaker m("kinds");
  const TensorId range = m.resident("range", {5}, {Kind::arange, 0, 0}, DType::i64);
  const TensorId causal = m.resident("causal", {3, 3}, {Kind::causal, 0, 0}, DType::boolean);
  const TensorId uniform = m.resident("uniform", {1000}, {Kind::uniform, 2, 3});
  const TensorId constant = m.resident("constant", {2}, {Kind::constant, 4, 0});
  const TensorId out = m.op1("aten::view", {T{constant}, Integers{2, 1}});
  const Graph graph = profiled(m.build({out}), device());
  const Plan plan = keep_all_plan(graph);
  Executor executor(graph, plan, on_device());
  executor.initialize(1);
  EXPECT_TRUE(at::equal(executor.resident(range).cpu(), at::arange(5)));
  EXPECT_TRUE(at::equal(executor.resident(causal).cpu(), at::ones({3, 3}, at::kBool).tril()));
  EXPECT_GE(executor.resident(uniform).min().item<float>(), 2);
  EXPECT_LT(executor.resident(uniform).max().item<float>(), 3);
  EXPECT_TRUE(at::equal(executor.resident(constant).cpu(), at::full({2}, 4.0)));
}

TEST(ExecutorOnSimulated, ThePoolIsToldHowManyBytesItGets) {
  const device::ComputeDevice& simulated = device::installed_simulated();
  const Graph& graph = measured_on(simulated, sample).graph;
  const Plan plan = keep_all_plan(graph);
  EXPECT_THAT([&] { Executor(graph, plan, {.memory = Memory::pool, .device = &simulated}); },
              ThrowsMessage<InputError>(HasSubstr("say how many bytes of simulated:0")));
}

TEST_P(ExecutorTest, RandomStepsGiveTheBitsOfInterpretation) {
  for (int seed = 0; seed < lowtide::testing::sweep(100, 4); ++seed) {
    SCOPED_TRACE(seed);
    const RandomStep step = random_step(seed);
    const Graph graph = profiled(step.graph, device());
    const Plan plan = with_layout(graph, with_in_place(graph, lower(graph, step.order)));
    const State expected = interpret_steps(graph, 3, reference());
    for (const ExecutorOptions& options : both_memories()) {
      expect_equal(run_steps(graph, plan, 3, options), expected);
    }
  }
}

}  // namespace
}  // namespace lowtide::runtime
