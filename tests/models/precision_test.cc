#include "models/precision.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "models/loss_scaler.h"
#include "models/model.h"
#include "plan/replay.h"
#include "support/throws.h"

namespace lowtide::models {
namespace {

using testing::AllOf;
using testing::HasSubstr;

Graph small_gpt(DType compute, const OptimizerOptions& optimizer = {.name = "adamw"}) {
  return training_graph(find_model("gpt"), {.batch = 2, .layers = 2, .width = 16, .heads = 2},
                        optimizer, {.compute = compute});
}

std::map<std::string, int> op_counts(const Graph& graph) {
  std::map<std::string, int> counts;
  for (const Op& op : graph.ops()) ++counts[op.type];
  return counts;
}

/// The types of all tensors of a role.
std::set<DType> types_of(const Graph& graph, Role role) {
  std::set<DType> types;
  for (const Tensor& tensor : graph.tensors()) {
    if (tensor.role == role) types.insert(*tensor.dtype);
  }
  return types;
}

bool has_tensor(const Graph& graph, std::string_view name) {
  return std::ranges::count(graph.tensors(), name, &Tensor::name) > 0;
}

TEST(Precision, HasNames) {
  for (const char* name : {"f32", "bf16", "fp16"}) {
    EXPECT_EQ(precision_name(parse_precision(name)), name);
  }
  EXPECT_THROWS_INPUT_ERROR(parse_precision("bf15"), HasSubstr("\"bf16\""));
  EXPECT_THROWS_INPUT_ERROR(small_gpt(DType::f64), HasSubstr("f64"));
}

TEST(Precision, TheLossScaleIsPositive) {
  for (double scale : {0.0, -1.0, std::numeric_limits<double>::infinity()}) {
    EXPECT_THROWS_INPUT_ERROR(training_graph(find_model("mlp"), {}, {}, {DType::f16, scale}),
                              HasSubstr("loss scale"));
  }
}

TEST(Precision, IsInTheNameOfTheGraph) {
  EXPECT_EQ(small_gpt(DType::f32).name(), "gpt-b2");
  EXPECT_EQ(small_gpt(DType::bf16).name(), "gpt-b2-bf16");
  EXPECT_EQ(inference_graph(find_model("mlp"), {}, {DType::f16}).name(), "mlp-b64-fp16-forward");
}

TEST(MixedPrecision, KeepsParametersGradientsLossAndStateInF32) {
  for (DType compute : {DType::bf16, DType::f16}) {
    const Graph graph = small_gpt(compute);
    for (Role role : {Role::parameter, Role::gradient, Role::loss}) {
      EXPECT_EQ(types_of(graph, role), std::set{DType::f32});
    }
  }
}

Graph small_mlp(std::string_view optimizer, const Precision& precision,
                std::int64_t micro_batches = 1) {
  return training_graph(find_model("mlp"), {.batch = 4, .image = 4, .width = 5},
                        {.name = std::string(optimizer)}, precision, micro_batches);
}

TEST(StoredTypes, HaveNames) {
  EXPECT_EQ(parse_stored_type(kStateType, "f32"), DType::f32);
  EXPECT_EQ(parse_stored_type(kStateType, "bf16"), DType::bf16);
  EXPECT_THROWS_INPUT_ERROR(parse_stored_type(kGradientType, "fp16"),
                            AllOf(HasSubstr("the type of gradients"), HasSubstr("\"fp16\"")));
  EXPECT_THROWS_INPUT_ERROR(small_mlp("sgd", {.state_type = DType::f16}),
                            HasSubstr("the optimizer's state is f32 or bf16, not f16"));
  EXPECT_THROWS_INPUT_ERROR(small_mlp("sgd", {.gradient_type = DType::f64}),
                            HasSubstr("gradients is f32 or bf16, not f64"));
}

TEST(StoredTypes, AreInTheNameOfTheGraph) {
  EXPECT_EQ(small_mlp("sgd", {.gradient_type = DType::bf16}).name(), "mlp-b4-gradients-bf16");
  EXPECT_EQ(small_mlp("sgd", {.compute = DType::bf16, .state_type = DType::bf16}).name(),
            "mlp-b4-bf16-state-bf16");
}

TEST(StoredTypes, AreThoseOfGradientsAndState) {
  for (DType compute : {DType::f32, DType::bf16, DType::f16}) {
    for (std::int64_t micro_batches : {1, 2}) {
      const Graph graph =
          small_mlp("adam", {.compute = compute, .gradient_type = DType::bf16}, micro_batches);
      EXPECT_EQ(types_of(graph, Role::gradient), std::set{DType::bf16});
      EXPECT_EQ(types_of(graph, Role::parameter), std::set{DType::f32});
    }
  }
}

/// Bytes of a role's tensors, less those of scalars.
Bytes bytes_of(const Graph& graph, Role role) {
  Bytes bytes = 0;
  for (const Tensor& tensor : graph.tensors()) {
    if (tensor.role == role && !tensor.shape.empty()) bytes += tensor.bytes;
  }
  return bytes;
}

TEST(StoredTypes, HalveTheState) {
  for (const char* optimizer : {"sgd", "adam", "adamw"}) {
    const Graph wide = small_mlp(optimizer, {});
    const Graph narrow = small_mlp(optimizer, {.state_type = DType::bf16});
    EXPECT_EQ(2 * bytes_of(narrow, Role::optimizer_state), bytes_of(wide, Role::optimizer_state));
    EXPECT_EQ(bytes_of(narrow, Role::parameter), bytes_of(wide, Role::parameter));
  }
}

TEST(StoredTypes, ChangeNothingWhereThereIsNoState) {
  const OptimizerOptions plain = {.name = "sgd", .momentum = 0};
  const auto counts = [&plain](const Precision& precision) {
    return op_counts(training_graph(find_model("mlp"), {}, plain, precision));
  };
  EXPECT_EQ(counts({}), counts({.state_type = DType::bf16}));
}

/// Gradients that are held until the last one is known, as those of fp16 are.
TEST(StoredTypes, LowerThePeakOfHeldGradients) {
  const auto peak = [](DType gradients) {
    const Precision precision = {.compute = DType::f16, .gradient_type = gradients};
    const ModelOptions sizes = {.batch = 1, .image = 4, .layers = 8, .width = 256};
    return keep_all_reference(training_graph(find_model("mlp"), sizes, {}, precision)).peak_bytes;
  };
  EXPECT_LT(peak(DType::bf16), peak(DType::f32));
}

TEST(MixedPrecision, TakesLessMemoryThanF32) {
  const auto peak = [](DType compute) {
    return keep_all_reference(training_graph(find_model("gpt"), {.layers = 2, .width = 128}, {},
                                             {.compute = compute}))
        .peak_bytes;
  };
  EXPECT_LT(peak(DType::bf16), 0.75 * static_cast<double>(peak(DType::f32)));
}

TEST(LossScaling, IsPartOfStepsInFp16Alone) {
  EXPECT_FALSE(has_tensor(small_gpt(DType::f32), kLossScaleName));
  EXPECT_FALSE(has_tensor(small_gpt(DType::bf16), kLossScaleName));
  EXPECT_TRUE(has_tensor(small_gpt(DType::f16), kLossScaleName));
  EXPECT_FALSE(has_tensor(inference_graph(find_model("mlp"), {}, {DType::f16}), kLossScaleName));
}

TEST(LossScaling, TestsEachGradientAndChangesTheScaleOnce) {
  const Graph graph = small_gpt(DType::f16);
  const auto gradients = std::ranges::count(graph.tensors(), Role::gradient, &Tensor::role);
  const auto counts = op_counts(graph);
  EXPECT_EQ(counts.at("aten::linalg_vector_norm"), gradients);
  EXPECT_EQ(counts.at("aten::_amp_update_scale_"), 1);
  EXPECT_EQ(graph.ops().back().type, "aten::_amp_update_scale_");
}

TEST(LossScaling, TakesNoMemoryForTheUnscaledGradients) {
  const Graph graph = small_gpt(DType::f16);
  for (const Op& op : graph.ops()) {
    if (op.outputs.empty()) continue;
    const Tensor& output = graph.tensor(op.outputs.front());
    if (output.role == Role::gradient) {
      EXPECT_FALSE(op.inplace.empty()) << op.name;
    }
  }
}

}  // namespace
}  // namespace lowtide::models
