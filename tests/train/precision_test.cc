#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "base/budget.h"
#include "base/error.h"
#include "models/layers.h"
#include "models/loss_scaler.h"
#include "runtime/initialize.h"
#include "support/interpret.h"
#include "support/sweep.h"
#include "train/checkpoint.h"
#include "train/record.h"
#include "train/safetensors.h"
#include "train/trainer_fixture.h"

// Training in mixed precision. That its numbers are those of PyTorch is a test of the models.
namespace lowtide::train {
namespace {

using ::testing::HasSubstr;

std::map<std::string, std::string> tensors_in(const std::filesystem::path& file) {
  std::map<std::string, std::string> bytes;
  SafetensorsReader reader(file);
  for (const SafetensorsReader::Entry& entry : reader.entries()) {
    std::string& content = bytes[entry.name];
    content.resize(entry.end - entry.begin);
    reader.read(entry, content);
  }
  return bytes;
}

class PrecisionTest : public TrainerTest {
 protected:
  static TrainOptions in(DType compute, TrainOptions options) {
    options.recipe.precision.compute = compute;
    return options;
  }
};

TEST_F(PrecisionTest, BudgetsAreKeptAndChangeNoBit) {
  for (DType compute : {DType::bf16, DType::f16}) {
    for (const TrainOptions& plain : {mlp(3), gpt(3), unet(3)}) {
      TrainOptions options = in(compute, plain);
      options.memory.planning.budget = parse_budget("75%");
      options.check = true;
      const TrainResult result = run(options);
      EXPECT_EQ(result.bit_identical, true) << result.first_difference;
      EXPECT_LE(result.measured_peak_bytes, result.budget_bytes);
      EXPECT_LT(result.budget_bytes, result.keep_all_peak_bytes);
      EXPECT_EQ(result.outside_bytes, 0);
      EXPECT_EQ(result.skipped_steps, 0);
      EXPECT_EQ(result.loss_scale.has_value(), compute == DType::f16);
    }
  }
}

TEST_F(PrecisionTest, AResumedRunEqualsAnUninterruptedOne) {
  for (DType compute : {DType::bf16, DType::f16}) {
    TrainOptions options = in(compute, gpt(6));
    options.recipe.precision.loss_scale = 0x1p40;  // so that steps are skipped before and after
    options.save = folder_ / "whole.ckpt";
    const TrainResult whole = run(options);
    options.save = folder_ / "part.ckpt";
    options.steps = 3;
    run(options);
    TrainOptions resumed = resumed_options(options.save);
    resumed.profile = options.profile;
    resumed.steps = 6;
    run(resumed);
    EXPECT_EQ(tensors_in(folder_ / "whole.ckpt"), tensors_in(folder_ / "part.ckpt"));
    EXPECT_EQ(whole.skipped_steps > 3, compute == DType::f16);
  }
}

TEST_F(PrecisionTest, AnOtherOneIsAnotherRun) {
  TrainOptions options = in(DType::bf16, mlp(1));
  options.save = folder_ / "run.ckpt";
  run(options);
  TrainOptions other = in(DType::f16, resumed_options(options.save));
  other.profile = options.profile;
  other.steps = 2;
  EXPECT_THAT([&] { run(other); },
              ::testing::ThrowsMessage<InputError>(HasSubstr("--precision bf16, now fp16")));
}

TEST_F(PrecisionTest, StoredTypesKeepBudgetsAndChangeNoBit) {
  for (DType compute : {DType::f32, DType::f16}) {
    for (const char* optimizer : {"sgd", "adamw"}) {
      TrainOptions options = in(compute, gpt(3));
      options.recipe.optimizer.name = optimizer;
      options.recipe.precision.gradient_type = DType::bf16;
      options.recipe.precision.state_type = DType::bf16;
      options.recipe.micro_batches = 2;
      options.memory.planning.budget = parse_budget("75%");
      options.check = true;
      const TrainResult result = run(options);
      EXPECT_EQ(result.bit_identical, true) << result.first_difference;
      EXPECT_LE(result.measured_peak_bytes, result.budget_bytes);
      EXPECT_EQ(result.outside_bytes, 0);
    }
  }
}

TEST_F(PrecisionTest, ARunWithStoredTypesResumes) {
  TrainOptions options = gpt(6);
  options.recipe.precision.gradient_type = DType::bf16;
  options.recipe.precision.state_type = DType::bf16;
  options.recipe.optimizer.name = "adam";
  options.save = folder_ / "whole.ckpt";
  run(options);
  options.save = folder_ / "part.ckpt";
  options.steps = 3;
  run(options);
  TrainOptions resumed = resumed_options(options.save);
  EXPECT_EQ(resumed.recipe.precision.state_type, DType::bf16);
  resumed.profile = options.profile;
  resumed.steps = 6;
  run(resumed);
  EXPECT_EQ(tensors_in(folder_ / "whole.ckpt"), tensors_in(folder_ / "part.ckpt"));
  resumed.recipe.precision.state_type = DType::f32;
  EXPECT_THAT([&] { run(resumed); },
              ::testing::ThrowsMessage<InputError>(HasSubstr("--state-type bf16, now f32")));
}

/// All but the scale, the running statistics and the generator stay as they were.
TEST_F(PrecisionTest, AStepThatOverflowsIsSkippedAndHalvesTheScale) {
  for (const char* optimizer : {"sgd", "adam", "adamw"}) {
    for (DType state_type : {DType::f32, DType::bf16}) {
      TrainOptions options = in(DType::f16, mlp(0));
      options.recipe.optimizer.name = optimizer;
      options.recipe.optimizer.weight_decay = 0.1;
      options.recipe.precision.loss_scale = 0x1p80;
      options.recipe.precision.state_type = state_type;
      options.save = folder_ / "before.ckpt";
      run(options);
      options.steps = 1;
      options.save = folder_ / "after.ckpt";
      const TrainResult result = run(options);
      EXPECT_EQ(result.skipped_steps, 1);
      EXPECT_EQ(result.loss_scale, 0x1p79);
      auto before = tensors_in(folder_ / "before.ckpt");
      auto after = tensors_in(folder_ / "after.ckpt");
      for (const char* changes : {models::kLossScaleName, "lowtide.generator"}) {
        before.erase(changes);
        after.erase(changes);
      }
      EXPECT_EQ(before, after) << optimizer << " with state in " << name(state_type);
    }
  }
}

TEST_F(PrecisionTest, StepsAreTakenAgainOnceTheScaleFits) {
  TrainOptions options = in(DType::f16, gpt(60));
  options.recipe.sizes.dropout = 0;
  options.recipe.optimizer.learning_rate = 3e-3;
  options.recipe.precision.loss_scale = 0x1p40;
  const TrainResult result = run(options);
  EXPECT_GT(result.skipped_steps, 10);
  EXPECT_LT(result.skipped_steps, 30);
  EXPECT_EQ(*result.loss_scale, std::ldexp(1.0, 40 - static_cast<int>(result.skipped_steps)));
  EXPECT_LT(result.losses.back(), 0.8 * result.losses.front());
}

/// The mean of the last tenth of the losses.
double reached(const std::vector<double>& losses) {
  const auto tenth = static_cast<std::ptrdiff_t>(losses.size() / 10);
  return std::accumulate(losses.end() - tenth, losses.end(), 0.0) / static_cast<double>(tenth);
}

std::int64_t some_steps() { return testing::sweep(200, 40); }

TEST_F(PrecisionTest, ATransformerLearnsAsInF32) {
  TrainOptions options = gpt(some_steps());
  options.recipe.sizes.dropout = 0;
  options.recipe.optimizer.learning_rate = 1e-3;
  const std::vector<double> plain = run(options).losses;
  EXPECT_LT(reached(plain), 0.85 * plain.front());
  for (DType compute : {DType::bf16, DType::f16}) {
    const double mixed = reached(run(in(compute, options)).losses);
    EXPECT_NEAR(mixed, reached(plain), 0.02 * reached(plain)) << models::precision_name(compute);
  }
}

TEST_F(PrecisionTest, ATransformerLearnsWithStoredTypesAsInF32) {
  TrainOptions options = gpt(some_steps());
  options.recipe.sizes.dropout = 0;
  const std::map<std::string, double> rates{{"sgd", 0.03}, {"adamw", 1e-3}};
  for (const auto& [optimizer, rate] : rates) {
    options.recipe.optimizer = {.name = optimizer, .learning_rate = rate};
    options.recipe.precision = {};
    const std::vector<double> plain = run(options).losses;
    EXPECT_LT(reached(plain), 0.85 * plain.front());
    options.recipe.precision.gradient_type = options.recipe.precision.state_type = DType::bf16;
    EXPECT_NEAR(reached(run(options).losses), reached(plain), 0.02 * reached(plain)) << optimizer;
  }
}

/// Three residual blocks of 16 channels.
models::ModelParts build_small_resnet(Builder& builder, const models::ModelOptions& options) {
  namespace layers = models::layers;
  const layers::ConvSpec spec = {.channels = 16, .kernel = 3, .padding = 1};
  const Value input = layers::image_input(builder, options, 4);
  Value x = layers::conv_bn_relu(input, "stem", "stem_norm", spec);
  for (const char* block : {"block1", "block2", "block3"}) {
    const Builder::Scope scope(builder, block);
    const Value y = layers::conv_bn_relu(x, "conv1", "norm1", spec);
    x = relu(x + layers::batch_norm(layers::conv(y, "conv2", spec), "norm2"));
  }
  const Value features = flatten(global_avg_pool2d(x), 1);
  return layers::with_cross_entropy(input,
                                    layers::linear(features, "head", {.width = options.classes}));
}

const models::Model kSmallResnet = {.name = "small-resnet",
                                    .summary = "",
                                    .paper = "",
                                    .task = models::Task::images,
                                    .defaults = {.batch = 16, .image = 12, .classes = 8},
                                    .build = build_small_resnet};

/// Fills a batch with textures in noise; the class is the texture's.
void draw_textures(const at::Tensor& images, const at::Tensor& classes, at::Generator generator) {
  const at::Tensor textures =
      at::randn({8, 3, 3, 3}, at::detail::createCPUGenerator(1)).repeat({1, 1, 4, 4});
  classes.random_(0, 8, generator);
  images.normal_(0, 1, generator);
  images.add_(textures.index_select(0, classes));
}

/// The losses of so many steps.
std::vector<double> trained_on_textures(DType compute, std::int64_t steps) {
  const Graph graph = models::training_graph(
      kSmallResnet, {}, {.name = "sgd", .learning_rate = 0.02}, {.compute = compute});
  const TensorId loss = graph.outputs().front();
  at::Generator generator = at::detail::createCPUGenerator(5);
  std::map<TensorId, at::Tensor> residents;
  for (TensorId id = 0; id < graph.num_tensors(); ++id) {
    const Tensor& tensor = graph.tensor(id);
    if (tensor.kind != Kind::resident) continue;
    residents[id] = at::zeros(tensor.shape, testing::torch_type(*tensor.dtype));
    if (tensor.init) runtime::fill(residents[id], *tensor.init, generator);
  }
  const at::Tensor& images = residents.at(tensors_with_role(graph, Role::input).front());
  const at::Tensor& classes = residents.at(tensors_with_role(graph, Role::target).front());
  const testing::Interpreter interpreter(graph);
  std::vector<double> losses;
  for (std::int64_t step = 0; step < steps; ++step) {
    draw_textures(images, classes, generator);
    losses.push_back(interpreter.run(residents).at(static_cast<std::size_t>(loss)).item<double>());
  }
  return losses;
}

TEST(MixedPrecisionOfAResnet, LearnsAsInF32) {
  const std::vector<double> plain = trained_on_textures(DType::f32, some_steps());
  EXPECT_LT(reached(plain), 0.5 * plain.front());
  for (DType compute : {DType::bf16, DType::f16}) {
    const double mixed = reached(trained_on_textures(compute, some_steps()));
    EXPECT_NEAR(mixed, reached(plain), 0.03 * plain.front()) << models::precision_name(compute);
  }
}

}  // namespace
}  // namespace lowtide::train
