#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <set>

#include "autodiff/gradient.h"
#include "models/layers.h"
#include "models/model.h"
#include "plan/replay.h"

namespace lowtide::models {
namespace {

std::int64_t elements(const Tensor& tensor) {
  std::int64_t count = 1;
  for (std::int64_t size : tensor.shape) count *= size;
  return count;
}

std::int64_t parameter_count(const Graph& graph) {
  std::int64_t count = 0;
  for (const Tensor& tensor : graph.tensors()) {
    if (tensor.role == Role::parameter) count += elements(tensor);
  }
  return count;
}

/// As published by torchvision and timm; those of the GPT-3 table agree with its rounded sizes.
const std::map<std::string, std::int64_t, std::less<>> kParameterCounts = {
    {"mlp", 669'706},
    {"vgg16", 138'357'544},
    {"vgg19", 143'667'240},
    {"resnet18", 11'689'512},
    {"resnet50", 25'557'032},
    {"resnet152", 60'192'808},
    {"mobilenet", 4'231'976},
    {"mobilenetv2", 3'504'872},
    {"densenet121", 7'978'856},
    {"inceptionv3", 27'161'264},
    {"unet", 7'763'140},
    {"fcn8", 134'489'759},
    {"segnet", 29'455'125},
    {"lstm", 2'361'600},
    {"gpt", 38'222'848},
    {"gpt3-small", 125'226'240},
    {"gpt3-medium", 355'871'744},
    {"gpt3-large", 760'300'032},
    {"gpt3-xl", 1'315'723'264},
    {"gpt3-2.7b", 2'651'553'280},
    {"gpt3-6.7b", 6'658'404'352},
    {"gpt3-13b", 12'853'386'240},
    {"gpt3-175b", 174'604'259'328},
    {"vit-small", 22'050'664},
    {"vit-base", 86'567'656}};

/// 1234567 as 1,234,567.
std::string grouped(std::int64_t count) {
  std::string digits = std::to_string(count);
  for (int i = static_cast<int>(digits.size()) - 3; i > 0; i -= 3)
    digits.insert(digits.begin() + i, ',');
  return digits;
}

/// The correct row of the model in docs/reference/models.md.
std::string documented_row(const Model& model) {
  const ModelOptions& d = model.defaults;
  std::string options;
  const auto add = [&options](std::string_view name, auto value) {
    options += fmt::format("{}{} {}", options.empty() ? "" : ", ", name, value);
  };
  for (const SizeOption& size : size_options()) {
    if (d.*size.field > 0) add(size.name, d.*size.field);
  }
  if (d.dropout >= 0) add("dropout", d.dropout);
  return fmt::format("| `{}` | {} | {} |\n", model.name,
                     grouped(kParameterCounts.find(model.name)->second), options);
}

class Zoo : public testing::TestWithParam<std::string> {
 protected:
  const Graph graph_ = training_graph(find_model(GetParam()), {}, {});
};

TEST_P(Zoo, HasThePublishedNumberOfParameters) {
  EXPECT_EQ(parameter_count(graph_), kParameterCounts.at(GetParam()));
}

TEST_P(Zoo, IsExecutableAndReplays) {
  EXPECT_TRUE(graph_.executable());
  const KeepAll reference = keep_all_reference(graph_);
  EXPECT_GT(reference.peak_bytes, graph_.resident_bytes());
  EXPECT_GE(reference.peak_bytes, structural_floor(graph_).bytes);
}

TEST_P(Zoo, HasOneGradientOfTheSameShapeForEachParameter) {
  std::set<TensorId> covered;
  for (const Tensor& tensor : graph_.tensors()) {
    if (tensor.role != Role::gradient) continue;
    const Tensor& parameter = graph_.tensor(tensor.gradient_of);
    EXPECT_EQ(parameter.role, Role::parameter);
    EXPECT_EQ(tensor.shape, parameter.shape) << parameter.name;
    EXPECT_TRUE(covered.insert(tensor.gradient_of).second) << parameter.name;
  }
  for (TensorId id = 0; id < graph_.num_tensors(); ++id) {
    if (graph_.tensor(id).role == Role::parameter) {
      EXPECT_TRUE(covered.contains(id)) << graph_.tensor(id).name;
    }
  }
}

TEST_P(Zoo, GoesThroughThePhasesInOrderAndEndsWithTheLoss) {
  EXPECT_TRUE(std::ranges::is_sorted(graph_.ops(), {}, &Op::phase));
  EXPECT_EQ(graph_.ops().front().phase, Phase::forward);
  EXPECT_EQ(graph_.ops().back().phase, Phase::optimizer);
  ASSERT_EQ(graph_.outputs().size(), 1U);
  const Tensor& loss = graph_.tensor(graph_.outputs().front());
  EXPECT_EQ(loss.role, Role::loss);
  EXPECT_THAT(loss.shape, testing::IsEmpty());
}

TEST_P(Zoo, WritesEachParameterOnceAndInTheOptimizer) {
  std::multiset<TensorId> written;
  for (const Op& op : graph_.ops()) {
    for (int position : op.mutates) {
      const TensorId id = op.inputs[static_cast<std::size_t>(position)];
      if (graph_.tensor(id).role != Role::parameter) continue;
      EXPECT_EQ(op.phase, Phase::optimizer) << op.name;
      written.insert(id);
    }
  }
  for (TensorId id = 0; id < graph_.num_tensors(); ++id) {
    const bool parameter = graph_.tensor(id).role == Role::parameter;
    EXPECT_EQ(written.count(id), parameter ? 1U : 0U) << graph_.tensor(id).name;
  }
}

TEST_P(Zoo, GivesEveryResidentButTheBatchAFirstValue) {
  for (const Tensor& tensor : graph_.tensors()) {
    if (tensor.kind != Kind::resident) continue;
    const bool batch = tensor.role == Role::input || tensor.role == Role::target;
    EXPECT_EQ(tensor.init.has_value(), !batch) << tensor.name;
  }
}

std::vector<std::string> model_names() {
  std::vector<std::string> names;
  for (const Model& model : models()) names.emplace_back(model.name);
  return names;
}

std::string test_name(const testing::TestParamInfo<std::string>& info) {
  std::string name = info.param;
  std::ranges::replace_if(
      name, [](char c) { return c == '-' || c == '.'; }, '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Models, Zoo, testing::ValuesIn(model_names()), test_name);

TEST(ModelList, IsWhatTheReferenceSays) {
  std::ifstream file(LOWTIDE_SOURCE_DIR "/docs/reference/models.md");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  for (const Model& model : models()) EXPECT_THAT(text, testing::HasSubstr(documented_row(model)));
}

TEST(ModelList, HasUniqueNamesAndTexts) {
  std::set<std::string_view> names;
  for (const Model& model : models()) {
    EXPECT_TRUE(names.insert(model.name).second) << model.name;
    EXPECT_FALSE(model.summary.empty()) << model.name;
    EXPECT_FALSE(model.paper.empty()) << model.name;
    EXPECT_GT(model.defaults.batch, 0) << model.name;
  }
}

TEST(Lstm, UnrollsToAnyLength) {
  const auto ops = [](std::int64_t sequence) {
    return training_graph(find_model("lstm"), {.batch = 2, .width = 8, .sequence = sequence}, {})
        .num_ops();
  };
  EXPECT_EQ(ops(300) - ops(299), ops(30) - ops(29));
  EXPECT_GT(ops(300), 10 * 300);
}

/// The example of docs/how-to/add-a-model.md.
TEST(OwnModel, NeedsNoRegistration) {
  Builder b("tiny");
  Value x = b.input("input", {32, 784});
  Value y = b.input("target", {32}, DType::i64, Role::target);
  Value h = relu(layers::linear(x, "hidden", {.width = 256}));
  Value loss = cross_entropy(layers::linear(h, "out", {.width = 10}), y);
  b.set_role(loss, Role::loss);
  b.set_phase(Phase::backward);
  std::vector<Value> gradients = autodiff::gradient(loss, b.parameters());
  append_optimizer(b, b.parameters(), gradients, {.name = "adam"});
  Graph graph = b.build({loss});
  EXPECT_EQ(parameter_count(graph), 785 * 256 + 257 * 10);
  EXPECT_TRUE(graph.executable());
}

TEST(Gpt, SharesOneCausalMask) {
  const Graph graph = training_graph(find_model("gpt"), {.layers = 3}, {});
  const auto constants = std::ranges::count(graph.tensors(), Role::constant, &Tensor::role);
  EXPECT_EQ(constants, 1);
}

}  // namespace
}  // namespace lowtide::models
