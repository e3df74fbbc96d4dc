#include "runtime/executor.h"

#include "base/error.h"
#include "runtime/training_sample.h"

namespace lowtide::runtime {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

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
  EXPECT_GT(
      std::ranges::count_if(plan.actions, [](const Action& a) { return !a.in_place.empty(); }), 0);
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

TEST(Executor, RefusesWhatCannotRun) {
  const Sample& s = profiled_sample();
  Plan bare = keep_all(s.graph);
  EXPECT_THAT([&] { Executor(s.graph, bare); }, ThrowsMessage<InputError>(HasSubstr("addresses")));

  const Graph estimated = sample().graph;
  const Plan plan = with_layout(estimated, keep_all(estimated));
  EXPECT_THAT(
      [&] { Executor(estimated, plan); },
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
}  // namespace lowtide::runtime
