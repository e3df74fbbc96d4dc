#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "models/model.h"

namespace lowtide::models {
namespace {

Graph mlp_graph(const OptimizerOptions& optimizer) {
  return training_graph(find_model("mlp"), {.batch = 2, .image = 4, .width = 5}, optimizer);
}

std::map<std::string, int> optimizer_op_counts(const Graph& graph) {
  std::map<std::string, int> counts;
  for (const Op& op : graph.ops()) {
    if (op.phase == Phase::optimizer) ++counts[op.type];
  }
  return counts;
}

/// Bytes of optimizer state in units of the bytes of all parameters, scalars left out.
double state_per_parameter(const Graph& graph) {
  Bytes state = 0, parameters = 0;
  for (const Tensor& tensor : graph.tensors()) {
    if (tensor.role == Role::parameter) parameters += tensor.bytes;
    if (tensor.role == Role::optimizer_state && !tensor.shape.empty()) state += tensor.bytes;
  }
  return static_cast<double>(state) / static_cast<double>(parameters);
}

const Tensor* find_tensor(const Graph& graph, std::string_view name) {
  const auto found = std::ranges::find(graph.tensors(), name, &Tensor::name);
  return found == graph.tensors().end() ? nullptr : &*found;
}

using Counts = std::map<std::string, int>;

TEST(OptimizerOptions, HaveTheLearningRateThatTheOptimizerTakes) {
  EXPECT_EQ(with_defaults(OptimizerOptions{.name = "sgd"}).learning_rate, 0.1);
  EXPECT_EQ(with_defaults(OptimizerOptions{.name = "adamw"}).learning_rate, 0.001);
  EXPECT_EQ(with_defaults(OptimizerOptions{.name = "adam", .learning_rate = 3}).learning_rate, 3);
}

TEST(OptimizerOptions, AreReadByTheOptimizersThatUseThem) {
  std::string of_sgd, of_adam;
  for (const RateOption& rate : rate_options()) {
    if (reads("sgd", rate)) of_sgd += std::string(rate.name) + " ";
    if (reads("adam", rate)) of_adam += std::string(rate.name) + " ";
  }
  EXPECT_EQ(of_sgd, "lr momentum weight-decay ");
  EXPECT_EQ(of_adam, "lr beta1 beta2 epsilon weight-decay ");
}

TEST(Sgd, UpdatesEachParameterWithAMomentum) {
  const Graph graph = mlp_graph({.name = "sgd"});
  EXPECT_EQ(optimizer_op_counts(graph), (Counts{{"aten::_fused_sgd_.tensor_lr", 6}}));
  EXPECT_EQ(state_per_parameter(graph), 1);
  EXPECT_NE(find_tensor(graph, "optimizer.layers.0.weight.momentum"), nullptr);
  EXPECT_EQ(find_tensor(graph, "optimizer.step"), nullptr);
}

TEST(Sgd, HoldsNothingWithoutMomentum) {
  EXPECT_EQ(state_per_parameter(mlp_graph({.name = "sgd", .momentum = 0})), 0);
}

TEST(Adam, CountsStepsOnceBeforeTheUpdates) {
  const Graph graph = mlp_graph({.name = "adam"});
  EXPECT_EQ(optimizer_op_counts(graph),
            (Counts{{"aten::_fused_adam_.tensor_lr", 6}, {"aten::add_.Scalar", 1}}));
  EXPECT_EQ(state_per_parameter(graph), 2);
  const auto first = std::ranges::find(graph.ops(), Phase::optimizer, &Op::phase);
  EXPECT_EQ(first->type, "aten::add_.Scalar");
}

TEST(AdamW, IsItsOwnOp) {
  const Graph graph = mlp_graph({.name = "adamw"});
  EXPECT_EQ(optimizer_op_counts(graph).count("aten::_fused_adamw_.tensor_lr"), 1U);
}

TEST(LearningRate, IsAResidentScalarOfDoublePrecision) {
  for (const auto& [name, expected] :
       std::map<std::string, double>{{"sgd", 0.1}, {"adam", 0.001}, {"adamw", 0.001}}) {
    const Graph graph = mlp_graph({.name = name});
    const Tensor* rate = find_tensor(graph, "optimizer.lr");
    ASSERT_NE(rate, nullptr);
    EXPECT_EQ(rate->dtype, DType::f64);
    EXPECT_EQ(rate->role, Role::optimizer_state);
    EXPECT_EQ(rate->init, init::constant(expected));
  }
  const Graph graph = mlp_graph({.learning_rate = 0.25});
  EXPECT_EQ(find_tensor(graph, "optimizer.lr")->init, init::constant(0.25));
}

}  // namespace
}  // namespace lowtide::models
