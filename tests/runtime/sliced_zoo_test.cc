#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include "bounds/budget_floor.h"
#include "models/step_recipe.h"
#include "planner/planner.h"
#include "runtime/training_sample.h"
#include "support/sweep.h"

// Steps of the zoo's models in slices compute what they do on the whole batch, but for rounding.
namespace lowtide::runtime {
namespace {

models::StepRecipe recipe_of(const char* model, const models::ModelOptions& sizes,
                             const char* optimizer = "sgd") {
  models::StepRecipe recipe;
  recipe.model = model;
  recipe.sizes = sizes;
  recipe.optimizer.name = optimizer;
  return recipe;
}

/// Slices draw other elements to drop.
models::StepRecipe without_dropout(models::StepRecipe recipe) {
  if (models::find_model(recipe.model).defaults.dropout > 0) recipe.sizes.dropout = 0;
  return recipe;
}

std::vector<models::StepRecipe> small_models() {
  return {
      recipe_of("mlp", {.batch = 5, .image = 6, .layers = 3, .width = 12}),
      recipe_of("gpt", {.batch = 5, .layers = 2, .width = 16, .heads = 2, .sequence = 12}),
      recipe_of("lstm", {.batch = 5, .layers = 2, .width = 8, .sequence = 4, .vocabulary = 30}),
      recipe_of("unet", {.batch = 5, .image = 16, .classes = 4, .layers = 2, .width = 4}, "adam"),
      recipe_of("vit-small",
                {.batch = 5, .image = 32, .classes = 7, .layers = 2, .width = 16, .heads = 2}),
  };
}

std::vector<models::StepRecipe> large_models() {
  return {
      recipe_of("vgg16", {.batch = 3, .image = 32, .classes = 7, .width = 16}),
      recipe_of("resnet18", {.batch = 5, .image = 32, .classes = 7}),
      recipe_of("resnet50", {.batch = 3, .image = 32, .classes = 7}),
      recipe_of("mobilenet", {.batch = 4, .image = 32, .classes = 7}),
      recipe_of("mobilenetv2", {.batch = 4, .image = 32, .classes = 7}),
      recipe_of("densenet121", {.batch = 3, .image = 32, .classes = 7}),
      recipe_of("inceptionv3", {.batch = 3, .image = 299, .classes = 7}),
      recipe_of("fcn8", {.batch = 3, .image = 32, .classes = 7, .width = 16}),
      recipe_of("segnet", {.batch = 3, .image = 32, .classes = 7}),
  };
}

/// The step in f64: rounding is small enough there that no activation falls on the other side of a
/// kink, and that few values to normalize over do no harm.
Graph in_double(const Graph& graph) {
  GraphData data = graph.data();
  for (Tensor& tensor : data.tensors) {
    if (tensor.dtype != DType::f32) continue;
    tensor.dtype = DType::f64;
    tensor.bytes *= 2;
  }
  for (Op& op : data.ops) {
    for (Argument& argument : op.args) {
      if (argument == Argument(DType::f32)) argument = DType::f64;
    }
  }
  return Graph(std::move(data));
}

/// What a step leaves: by name, residents, and the loss.
std::map<std::string, at::Tensor> left_by(const Graph& graph) {
  ExecutorOptions pool;
  pool.memory = Memory::pool;
  const Plan plan = keep_all(graph);
  Executor executor(graph, plan, pool);
  executor.initialize(5);
  at::Generator generator = at::detail::createCPUGenerator(7);
  for (TensorId id : resident_ids(graph)) {
    const Tensor& tensor = graph.tensor(id);
    if (tensor.role != Role::input && tensor.role != Role::target) continue;
    executor.resident(id).copy_(tensor.dtype == DType::f64
                                    ? at::randn(tensor.shape, generator, at::kDouble)
                                    : at::randint(4, tensor.shape, generator, at::kLong));
  }
  executor.step();
  std::map<std::string, at::Tensor> left;
  left["loss"] = copied(executor.output(graph.outputs().front()));
  for (TensorId id : resident_ids(graph))
    left[graph.tensor(id).name] = copied(executor.resident(id));
  return left;
}

/// As far apart as `share` of the largest value of a tensor; where that is rounding itself, as
/// before batch norm the gradient of a bias, as that share of a thousandth.
void expect_near(const std::map<std::string, at::Tensor>& got,
                 const std::map<std::string, at::Tensor>& expected, double share) {
  ASSERT_EQ(got.size(), expected.size());
  for (const auto& [name, whole] : expected) {
    ASSERT_TRUE(got.contains(name)) << name;
    const at::Tensor a = got.at(name).to(at::kDouble), b = whole.to(at::kDouble);
    ASSERT_EQ(a.sizes(), b.sizes()) << name;
    const double largest = std::max(b.abs().max().item<double>(), 1e-3);
    EXPECT_LE((a - b).abs().max().item<double>(), share * largest) << name;
  }
}

void expect_same_in_slices(models::StepRecipe recipe, std::initializer_list<std::int64_t> counts,
                           double share, Graph (*changed)(const Graph&)) {
  SCOPED_TRACE(recipe.model);
  recipe = without_dropout(recipe);
  const auto whole = left_by(changed(models::training_graph(recipe)));
  for (std::int64_t count : counts) {
    SCOPED_TRACE(count);
    recipe.slices = count;
    expect_near(left_by(changed(models::training_graph(recipe))), whole, share);
  }
}

Graph as_it_is(const Graph& graph) { return graph; }

class SlicedZooTest : public ::testing::Test {
 protected:
  // At these sizes threads cost more than they give.
  SlicedZooTest() : threads_(at::get_num_threads()) { at::set_num_threads(1); }
  ~SlicedZooTest() override { at::set_num_threads(threads_); }

 private:
  int threads_;
};

TEST_F(SlicedZooTest, StepsLeaveWhatTheyLeaveOnTheWholeBatch) {
  for (const models::StepRecipe& recipe : small_models()) {
    expect_same_in_slices(recipe, {2, 3, 5}, 1e-8, in_double);
    expect_same_in_slices(recipe, {3}, 1e-4, as_it_is);
  }
}

TEST_F(SlicedZooTest, OtherModelsToo) {
  if (!testing::sweep(true, false)) GTEST_SKIP() << "takes a minute";
  for (const models::StepRecipe& recipe : large_models()) {
    expect_same_in_slices(recipe, {2, 3}, 1e-6, in_double);
  }
}

TEST_F(SlicedZooTest, MicroBatchesRunInSlices) {
  models::StepRecipe recipe =
      recipe_of("unet", {.batch = 6, .image = 16, .classes = 4, .layers = 2, .width = 4});
  recipe.micro_batches = 2;
  expect_same_in_slices(recipe, {2, 3}, 1e-8, in_double);
}

/// Rounding to 8 or 11 bits differs with the order of sums.
TEST_F(SlicedZooTest, MixedPrecisionIsNear) {
  for (DType compute : {DType::bf16, DType::f16}) {
    for (const char* model : {"gpt", "unet"}) {
      const std::vector<models::StepRecipe> all = small_models();
      models::StepRecipe recipe = *std::ranges::find(all, model, &models::StepRecipe::model);
      recipe.optimizer.name = "sgd";
      recipe.precision.compute = compute;
      expect_same_in_slices(recipe, {3}, 0.1, as_it_is);
    }
  }
}

TEST_F(SlicedZooTest, TrainWithinBudgetsBelowTheFloorOfTheWholeBatch) {
  models::StepRecipe recipe = recipe_of(
      "gpt",
      {.batch = 4, .layers = 2, .width = 16, .heads = 2, .sequence = 24, .vocabulary = 2000});
  const Bytes budget = bounds::budget_floor(models::training_graph(recipe));
  recipe.slices = 4;
  const Graph graph = profiled(models::training_graph(recipe), device::cpu_device());
  Control control(0.3, {});
  const auto planned = planner::plan_within(graph, strategy::find_strategy_or_default(""),
                                            budget * 3 / 4, {}, control);
  ASSERT_TRUE(planned.plan) << planned.message;
  EXPECT_FALSE(verify(graph, *planned.plan));
  Executor executor(graph, *planned.plan, {});
  executor.initialize(5);
  for (int step = 0; step < 2; ++step) {
    EXPECT_LE(executor.step().measured_peak_bytes, budget * 3 / 4);
  }
}

}  // namespace
}  // namespace lowtide::runtime
