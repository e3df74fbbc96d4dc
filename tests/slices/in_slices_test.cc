#include "slices/in_slices.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "bounds/budget_floor.h"
#include "builder/functions.h"
#include "models/micro_batches.h"
#include "models/step_recipe.h"
#include "plan/replay.h"
#include "support/throws.h"

namespace lowtide::slices {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

models::StepRecipe gpt(std::int64_t slices) {
  return {
      .model = "gpt",
      .sizes =
          {.batch = 4, .layers = 2, .width = 32, .heads = 2, .sequence = 64, .vocabulary = 4000},
      .slices = slices};
}

Graph in_parts(models::StepRecipe recipe, std::int64_t micro_batches) {
  recipe.micro_batches = micro_batches;
  return models::training_graph(recipe);
}

/// Shapes of the results of all ops of a type, in order.
std::vector<Shape> made_by(const Graph& graph, std::string_view type) {
  std::vector<Shape> shapes;
  for (const Op& op : graph.ops()) {
    if (op.type == type) shapes.push_back(graph.tensor(op.outputs.front()).shape);
  }
  return shapes;
}

TEST(InSlices, OneSliceIsTheGraphItself) {
  const Graph one = models::training_graph(gpt(1));
  EXPECT_EQ(one.name(), "gpt-b4");
  EXPECT_EQ(models::training_graph(gpt(2)).name(), "gpt-b4-s2");
  EXPECT_EQ(in_parts(gpt(2), 2).name(), "gpt-b4-m2-s2");
}

TEST(InSlices, AreAtMostTheRowsOfABatchOrOfAMicroBatch) {
  EXPECT_THROWS_INPUT_ERROR(models::training_graph(gpt(5)), HasSubstr("a batch of 4 has 1 to 4"));
  EXPECT_THROWS_INPUT_ERROR(models::training_graph(gpt(-1)), HasSubstr("--slices -1"));
  EXPECT_THROWS_INPUT_ERROR(models::training_graph(gpt(models::kAutomatic)),
                            HasSubstr("--slices auto chooses by measured plans"));
  EXPECT_THROWS_INPUT_ERROR(in_parts(gpt(3), 2), HasSubstr("a micro-batch of 2 has 1 to 2"));
}

TEST(InSlices, ResidentsAndRolesAreThoseOfTheWhole) {
  for (const char* model : {"gpt", "unet", "lstm"}) {
    models::StepRecipe recipe{
        .model = model, .sizes = models::find_model(model).defaults, .optimizer = {.name = "adam"}};
    recipe.sizes.batch = 4;
    if (recipe.sizes.sequence > 0) recipe.sizes.sequence = 8;
    const Graph whole = models::training_graph(recipe);
    recipe.slices = 2;
    const Graph sliced = models::training_graph(recipe);
    const auto described = [](const Graph& graph) {
      std::vector<std::pair<std::string, Role>> residents;
      for (const Tensor& tensor : graph.tensors()) {
        if (tensor.kind == Kind::resident) residents.emplace_back(tensor.name, tensor.role);
      }
      return residents;
    };
    EXPECT_EQ(described(sliced), described(whole)) << model;
    for (Role role : {Role::gradient, Role::loss}) {
      EXPECT_EQ(std::ranges::count(sliced.tensors(), role, &Tensor::role),
                std::ranges::count(whole.tensors(), role, &Tensor::role))
          << model << " " << name(role);
    }
    EXPECT_EQ(sliced.tensor(sliced.outputs().front()).name, "loss");
  }
}

TEST(InSlices, OpsTakeTheRowsOfASlice) {
  Builder b("line");
  const Value x = b.input("x", {5, 3});
  const Value w = b.parameter("w", {3, 2}, init::normal(0, 1));
  const Graph graph = in_slices(b.build({relu(mm(x, w))}), 2);
  EXPECT_THAT(made_by(graph, "aten::mm"), ElementsAre(Shape{2, 2}, Shape{3, 2}));
  EXPECT_THAT(made_by(graph, "aten::cat"), ElementsAre(Shape{5, 2}));
}

/// What an op reads that is not cut is put together, and cut again behind it.
TEST(InSlices, AnOpWithoutARuleRunsAsAWhole) {
  Builder b("whole");
  const Value x = b.input("x", {4, 3});
  const Value order = b.input("order", {2}, DType::i64, Role::constant);
  const Value picked = b.call1("aten::index_select", {relu(x), 0, order});
  const Graph graph = in_slices(b.build({picked}), 2);
  EXPECT_THAT(made_by(graph, "aten::relu"), ElementsAre(Shape{2, 3}, Shape{2, 3}));
  EXPECT_THAT(made_by(graph, "aten::index_select"), ElementsAre(Shape{2, 3}));
}

TEST(InSlices, ASumIsAddedUpInPlace) {
  Builder b("sum");
  const Value x = b.input("x", {6, 3}), g = b.input("g", {6, 2});
  b.set_phase(Phase::backward);
  const Graph graph = in_slices(b.build({mm(b.call1("aten::t", {relu(x)}), g)}), 3);
  EXPECT_THAT(made_by(graph, "aten::mm"), ElementsAre(Shape{3, 2}));
  EXPECT_THAT(made_by(graph, "aten::addmm"), ElementsAre(Shape{3, 2}, Shape{3, 2}));
  for (const Op& op : graph.ops()) {
    if (op.type == "aten::addmm") {
      EXPECT_THAT(op.inplace, ElementsAre(InPlace{0, 0}));
    }
  }
}

/// As the gradient of a table that is embedding and head.
TEST(InSlices, PartsOfSeveralOpsAreAddedToOneSum) {
  Builder b("shared");
  const Value x = relu(b.input("x", {4, 5})), g = relu(b.input("g", {4, 2}));
  const Value tokens = b.input("tokens", {4}, DType::i64);
  b.set_phase(Phase::backward);
  const Value of_head = b.call1("aten::t", {b.call1("aten::t", {mm(b.call1("aten::t", {x}), g)})});
  const Value rows = b.call1("aten::embedding_dense_backward", {g, tokens, 5, -1, false});
  const Graph graph = in_slices(b.build({of_head + rows}), 2);
  EXPECT_THAT(made_by(graph, "aten::add.Tensor"), ElementsAre());
  EXPECT_EQ(made_by(graph, "aten::addmm").size() + made_by(graph, "aten::scatter_add").size(), 3U);
  EXPECT_EQ(
      made_by(graph, "aten::mm").size() + made_by(graph, "aten::embedding_dense_backward").size(),
      1U);
}

TEST(InSlices, TheStatisticsOfBatchNormAreThoseOfTheWholeBatch) {
  const models::StepRecipe recipe{
      .model = "unet",
      .sizes = {.batch = 4, .image = 32, .classes = 4, .layers = 2, .width = 8},
      .slices = 4};
  const Graph graph = models::training_graph(recipe);
  EXPECT_THAT(made_by(graph, "aten::native_batch_norm"), ElementsAre());
  for (const Op& op : graph.ops()) {
    if (op.type == "aten::native_batch_norm_backward") {
      EXPECT_EQ(graph.tensor(op.inputs.front()).shape.front(), 1) << op.name;
    }
  }
}

TEST(InSlices, TheLeastMemoryOfAModelWithALargeVocabularyFallsToLessThanHalf) {
  const Bytes whole = bounds::budget_floor(models::training_graph(gpt(1)));
  const Bytes sliced = bounds::budget_floor(models::training_graph(gpt(4)));
  EXPECT_LE(2 * sliced, whole);
  const auto of_micro_batches = [](std::int64_t slices) {
    return bounds::budget_floor(in_parts(gpt(slices), 2));
  };
  EXPECT_LT(of_micro_batches(2), of_micro_batches(1));
}

}  // namespace
}  // namespace lowtide::slices
