#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include "models/model.h"
#include "plan/replay.h"
#include "planner/planner.h"
#include "runtime/training_sample.h"

// Training steps of the zoo's models, whole: forward, backward and update.
namespace lowtide::runtime {
namespace {

struct Zoo {
  const char* model;
  const char* optimizer;
  models::ModelOptions sizes;
};

const std::vector<Zoo> kZoo = {
    {"mlp", "sgd", {.batch = 16, .image = 8, .layers = 4, .width = 24, .dropout = 0.2}},
    {"unet", "sgd", {.batch = 2, .image = 16, .classes = 4, .layers = 2, .width = 8}},
    {"gpt",
     "adamw",
     {.batch = 2, .layers = 2, .width = 16, .heads = 2, .sequence = 12, .dropout = 0.1}},
};

Graph training_graph(const Zoo& zoo) {
  models::OptimizerOptions optimizer;
  optimizer.name = zoo.optimizer;
  return models::training_graph(models::find_model(zoo.model), zoo.sizes,
                                models::with_defaults(optimizer));
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
  for (const Zoo& zoo : kZoo) {
    SCOPED_TRACE(zoo.model);
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

}  // namespace
}  // namespace lowtide::runtime
