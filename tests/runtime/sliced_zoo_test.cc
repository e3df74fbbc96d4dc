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

models::StepRecipe recipe_of(const char* model, models::ModelOptions sizes,
                             const char* optimizer = "sgd") {
  return {.model = model, .sizes = sizes, .optimizer = {.name = optimizer}};
}

/// Slices draw other elements to drop.
models::StepRecipe without_dropout(models::StepRecipe recipe) {
  if (models::find_model(recipe.model).defaults.dropout > 0) recipe.sizes.dropout = 0;
  return recipe;
}

const std::vector<models::StepRecipe> kSmall = {
    recipe_of("mlp", {.batch = 5, .image = 6, .layers = 3, .width = 12}),
    recipe_of("gpt", {.batch = 5, .layers = 2, .width = 16, .heads = 2, .sequence = 12}),
    recipe_of("lstm", {.batch = 5, .layers = 2, .width = 8, .sequence = 4, .vocabulary = 30}),
    recipe_of("unet", {.batch = 5, .image = 16, .classes = 4, .layers = 2, .width = 4}, "adam"),
    recipe_of("vit-small",
              {.batch = 5, .image = 32, .classes = 7, .layers = 2, .width = 16, .heads = 2}),
};

const std::vector<models::StepRecipe> kLarge = {
    recipe_of("vgg16", {.batch = 3, .image = 32, .classes = 7, .width = 16}),
    recipe_of("resnet18", {.batch = 5, .image = 32, .classes = 7}),
    recipe_of("resnet50", {.batch = 3, .image = 32, .classes = 7}),
    recipe_of("mobilenet", {.batch = 5, .image = 32, .classes = 7}),
    recipe_of("mobilenetv2", {.batch = 5, .image = 32, .classes = 7}),
    recipe_of("densenet121", {.batch = 3, .image = 32, .classes = 7}),
    recipe_of("inceptionv3", {.batch = 3, .image = 80, .classes = 7}),
    recipe_of("fcn8", {.batch = 3, .image = 32, .classes = 7, .width = 16}),
    recipe_of("segnet", {.batch = 3, .image = 32, .classes = 7}),
};

/// What a step leaves: by name, residents, and the loss.
std::map<std::string, at::Tensor> left_by(const models::StepRecipe& recipe) {
  const Graph graph = models::training_graph(recipe);
  ExecutorOptions pool;
  pool.memory = Memory::pool;
  const Plan plan = keep_all(graph);
  Executor executor(graph, plan, pool);
  executor.initialize(5);
  at::Generator generator = at::detail::createCPUGenerator(7);
  for (TensorId id : resident_ids(graph)) {
    const Tensor& tensor = graph.tensor(id);
    if (tensor.role != Role::input && tensor.role != Role::target) continue;
    executor.resident(id).copy_(tensor.dtype == DType::f32
                                    ? at::randn(tensor.shape, generator)
                                    : at::randint(4, tensor.shape, generator, at::kLong));
  }
  executor.step();
  std::map<std::string, at::Tensor> left;
  left["loss"] = copied(executor.output(graph.outputs().front()));
  for (TensorId id : resident_ids(graph))
    left[graph.tensor(id).name] = copied(executor.resident(id));
  return left;
}

/// As far apart as `share` of the largest value; and where a gradient is zero but for rounding,
/// as of one of a thousandth.
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
                           double share = 1e-4) {
  SCOPED_TRACE(recipe.model);
  recipe = without_dropout(recipe);
  const auto whole = left_by(recipe);
  for (std::int64_t count : counts) {
    SCOPED_TRACE(count);
    recipe.slices = count;
    expect_near(left_by(recipe), whole, share);
  }
}

class SlicedZooTest : public ::testing::Test {
 protected:
  // At these sizes threads cost more than they give.
  SlicedZooTest() : threads_(at::get_num_threads()) { at::set_num_threads(1); }
  ~SlicedZooTest() override { at::set_num_threads(threads_); }

 private:
  int threads_;
};

TEST_F(SlicedZooTest, StepsLeaveWhatTheyLeaveOnTheWholeBatch) {
  for (const models::StepRecipe& recipe : kSmall) expect_same_in_slices(recipe, {2, 3, 5});
}

TEST_F(SlicedZooTest, LargeModelsToo) {
  for (const models::StepRecipe& recipe : kLarge) expect_same_in_slices(recipe, {2, 3});
}

}  // namespace
}  // namespace lowtide::runtime
