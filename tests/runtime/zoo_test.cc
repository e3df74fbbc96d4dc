#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include "models/model.h"
#include "offload/joint.h"
#include "plan/replay.h"
#include "plan/verify.h"
#include "planner/planner.h"
#include "runtime/training_sample.h"
#include "slower/faulty_calls.h"
#include "slower/file_store.h"
#include "slower/host_store.h"
#include "support/temp_folder.h"

// Training steps of the zoo's models, whole: forward, backward and update.
namespace lowtide::runtime {
namespace {

struct Zoo {
  const char* model;
  const char* optimizer;
  models::ModelOptions sizes;
  DType compute = DType::f32;
};

const std::vector<Zoo> kZoo = {
    {"mlp", "sgd", {.batch = 16, .image = 8, .layers = 4, .width = 24, .dropout = 0.2}},
    {"unet", "sgd", {.batch = 2, .image = 16, .classes = 4, .layers = 2, .width = 8}},
    {"unet", "adam", {.batch = 2, .image = 16, .classes = 4, .layers = 2, .width = 8}, DType::f16},
    {"gpt",
     "sgd",
     {.batch = 2, .layers = 2, .width = 16, .heads = 2, .sequence = 12, .dropout = 0.1},
     DType::bf16},
    {"gpt",
     "adamw",
     {.batch = 2, .layers = 2, .width = 16, .heads = 2, .sequence = 12, .dropout = 0.1}},
};

Graph training_graph(const Zoo& zoo) {
  models::OptimizerOptions optimizer;
  optimizer.name = zoo.optimizer;
  return models::training_graph(models::find_model(zoo.model), zoo.sizes,
                                models::with_defaults(optimizer), {.compute = zoo.compute});
}

/// The best plan that is found within a share of keep-all's memory.
Plan planned(const Graph& graph) {
  Control control(0.3, {});
  const Bytes budget = keep_all_reference(graph).peak_bytes * 9 / 10;
  const auto found =
      planner::plan_within(graph, strategy::find_strategy_or_default(""), budget, {}, control);
  return found.plan.value();
}

void give_batch(const Graph& graph, Executor& executor, std::uint64_t seed) {
  at::Generator generator = at::detail::createCPUGenerator(seed);
  for (TensorId id = 0; id < graph.num_tensors(); ++id) {
    const Tensor& tensor = graph.tensor(id);
    if (tensor.role != Role::input && tensor.role != Role::target) continue;
    if (tensor.dtype == DType::f32) {
      executor.resident(id).copy_(at::randn(tensor.shape, generator));
    } else {
      executor.resident(id).copy_(at::randint(4, tensor.shape, generator, at::kLong));
    }
  }
}

/// The loss of each step, and in the end all residents.
std::vector<at::Tensor> trained(const Graph& graph, const Plan& plan,
                                const ExecutorOptions& options) {
  Executor executor(graph, plan, options);
  executor.initialize(5);
  seed_generator(*options.device, 11);
  std::vector<at::Tensor> left;
  for (std::uint64_t step = 0; step < 3; ++step) {
    give_batch(graph, executor, step);
    executor.step();
    left.push_back(copied(executor.output(graph.outputs().front())));
  }
  for (TensorId id : resident_ids(graph)) left.push_back(copied(executor.resident(id)));
  return left;
}

void expect_same(const std::vector<at::Tensor>& got, const std::vector<at::Tensor>& expected) {
  ASSERT_EQ(got.size(), expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_TRUE(at::equal(got[i], expected[i])) << i;
}

class ZooTest : public ExecutorOnEachDevice {
 protected:
  // At these sizes threads cost more than they give.
  ZooTest() : threads_(at::get_num_threads()) { at::set_num_threads(1); }
  ~ZooTest() override { at::set_num_threads(threads_); }

 private:
  int threads_;
};

ON_EACH_DEVICE(ZooTest);

TEST_P(ZooTest, ModelsTrainWithTheBitsOfKeepAllWithinABudgetAndInThePool) {
  if (device().torch_device().is_cuda()) GTEST_SKIP() << "the zoo's updates are those of the CPU";
  for (const Zoo& zoo : kZoo) {
    SCOPED_TRACE(std::string(zoo.model) + " in " + std::string(name(zoo.compute)));
    const Graph bare = training_graph(zoo);
    const Plan all = keep_all(bare);
    ExecutorOptions pool = in_pool();
    pool.device = &reference();
    const auto expected = trained(bare, all, pool);
    expect_same(trained(bare, all, in_pool()), expected);

    const Graph graph = profiled(bare, device());
    const Plan plan = planned(graph);
    EXPECT_LT(plan.layout->arena_bytes, keep_all_plan(graph).layout->arena_bytes);
    expect_same(trained(graph, plan, on_device()), expected);
    expect_same(trained(graph, plan, in_pool()), expected);
  }
}

/// The step of a model whose ops have the memory that was measured, and take one time all: so no
/// plan depends on how busy the machine is.
Graph step_of_equal_ops(const Zoo& zoo) {
  constexpr double kMicroseconds = 20;
  GraphData data = profiled(training_graph(zoo), device::cpu_device()).data();
  for (Op& op : data.ops) op.cost = kMicroseconds;
  return Graph(std::move(data));
}

/// With parameters and optimizer state in slower memory, within so much of what lies between the
/// floor and all that keep-all takes.
std::optional<Plan> plan_with_residents_away(const Graph& graph, double share) {
  const offload::Slower slower{.lanes = {.out = {5, 1e-4}, .in = {5, 1e-4}}, .residents = true};
  const Bytes floor = offload::floor_of_moves(graph, slower);
  const auto above = static_cast<double>(keep_all_reference(graph).peak_bytes - floor);
  const Bytes budget = floor + static_cast<Bytes>(share * above);
  Control control = Control::by_work(0.5);
  auto planned = offload::plan_with(graph, budget, slower, offload::Ways::move, control);
  if (!planned.plan || !planned.plan->slower) return std::nullopt;
  return planned.plan;
}

TEST(ZooInSlowerMemory, ModelsTrainWithTheBitsOfKeepAllWithoutRoomForTheirParametersAndState) {
  const testing::TempFolder folder;
  int away = 0;
  for (const Zoo& zoo : kZoo) {
    const Graph graph = step_of_equal_ops(zoo);
    const auto expected = trained(graph, keep_all_plan(graph), {});
    SCOPED_TRACE(zoo.model);
    const std::optional<Plan> plan = plan_with_residents_away(graph, 0.4);
    if (!plan) continue;
    EXPECT_FALSE(verify(graph, *plan));
    away += static_cast<int>(plan->slower->residents.size());
    slower::HostStore late(plan->slower->bytes, {.out = {1e-4, 1e8}, .in = {1e-4, 1e8}});
    slower::FaultyCalls calls;
    calls.be_choppy();
    calls.delay(50);
    slower::FileStore file(folder.path(), plan->slower->bytes, {.calls = &calls});
    for (slower::Store* store : std::initializer_list<slower::Store*>{&late, &file}) {
      expect_same(trained(graph, *plan, {.slower = store}), expected);
    }
  }
  EXPECT_GT(away, 20);
}

TEST(ZooInSlowerMemory, ALostParameterIsAnErrorThatNamesItAndTheRunCanBeginAgain) {
  const testing::TempFolder folder;
  const Graph graph = step_of_equal_ops(kZoo.back());
  const Plan plan = plan_with_residents_away(graph, 0.4).value();
  const TensorId lost = plan.slower->residents.front();
  slower::FaultyCalls calls;
  slower::FileStore file(folder.path(), plan.slower->bytes, {.calls = &calls});
  Executor executor(graph, plan, {.slower = &file});
  executor.initialize(5);
  calls.fail_reads(slower::Fault::flipped);
  EXPECT_THAT([&] { executor.resident(lost); },
              ::testing::ThrowsMessage<Error>(::testing::HasSubstr(graph.tensor(lost).name)));
  calls.fail_reads(slower::Fault::error);
  EXPECT_THROW(executor.step(), Error);
  const auto loss = [&](Executor& one) {
    seed_generator(device::cpu_device(), 5);
    one.initialize(5);
    give_batch(graph, one, 5);
    one.step();
    return copied(one.output(graph.outputs().front()));
  };
  const Plan kept = keep_all_plan(graph);
  Executor reference(graph, kept);
  EXPECT_TRUE(at::equal(loss(executor), loss(reference)));
}

TEST(ZooInSlowerMemory, NoMoreIsInMemoryThanThePlanSays) {
  const Graph graph = step_of_equal_ops(kZoo.back());
  const Plan plan = plan_with_residents_away(graph, 0.4).value();
  slower::HostStore store(plan.slower->bytes);
  Executor executor(graph, plan, {.slower = &store});
  executor.initialize(5);
  give_batch(graph, executor, 5);
  const StepReport report = executor.step();
  EXPECT_LE(report.measured_peak_bytes, executor.block_bytes());
  EXPECT_LE(executor.block_bytes(),
            plan.layout->arena_bytes + generator_state_bytes(graph) + graph.alignment());
  EXPECT_LT(plan.layout->arena_bytes, keep_all_plan(graph).layout->arena_bytes);
}

}  // namespace
}  // namespace lowtide::runtime
