#include "estimate/transformer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>

#include "estimate/from_graph.h"
#include "models/model.h"
#include "support/sweep.h"
#include "support/throws.h"

namespace lowtide::testing {
namespace {

using estimate::Estimate;
using estimate::Shard;
using estimate::TransformerSizes;
using estimate::TransformerTraining;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr double kGiB = 1024.0 * 1024 * 1024;

TransformerSizes gpt3(std::int64_t layers, std::int64_t width, std::int64_t heads) {
  return {.layers = layers, .width = width, .heads = heads, .vocabulary = 50257, .sequence = 2048};
}

const std::map<std::string, TransformerSizes> kGpt3 = {
    {"gpt3-small", gpt3(12, 768, 12)},  {"gpt3-medium", gpt3(24, 1024, 16)},
    {"gpt3-large", gpt3(24, 1536, 16)}, {"gpt3-xl", gpt3(24, 2048, 16)},
    {"gpt3-2.7b", gpt3(32, 2560, 32)},  {"gpt3-6.7b", gpt3(32, 4096, 32)},
    {"gpt3-13b", gpt3(40, 5120, 40)},   {"gpt3-175b", gpt3(96, 12288, 96)}};

/// Brown et al., 2020, table 2.1, in millions.
const std::map<std::string, double> kPublishedMillions = {
    {"gpt3-small", 125}, {"gpt3-medium", 350}, {"gpt3-large", 760}, {"gpt3-xl", 1300},
    {"gpt3-2.7b", 2700}, {"gpt3-6.7b", 6700},  {"gpt3-13b", 13000}, {"gpt3-175b", 175000}};

/// The step of the zoo's model of these sizes.
Estimate of_zoo(const TransformerSizes& sizes, const TransformerTraining& training) {
  return estimate::from_graph(models::training_graph(
      models::find_model("gpt"),
      {.batch = sizes.batch,
       .layers = sizes.layers,
       .width = sizes.width,
       .heads = sizes.heads,
       .sequence = sizes.sequence,
       .vocabulary = sizes.vocabulary,
       .dropout = training.drops_out ? 0.1 : 0.0},
      {.name = training.states == 2 ? "adam" : "sgd"}, {.compute = training.compute}));
}

/// One of several sequences: of one alone, the graph's keys and values stay in one tensor with
/// queries that were not scaled, and the formulas count no such tensor.
struct Case {
  TransformerSizes sizes;
  TransformerTraining training;
};

Case random_case(std::uint64_t seed, std::int64_t scale) {
  std::mt19937_64 random(seed);
  const auto up_to = [&](std::int64_t most) {
    return 1 + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(most));
  };
  const std::int64_t heads = 1 + up_to(7);
  const DType compute[] = {DType::f32, DType::bf16, DType::f16};
  return {{.layers = up_to(6),
           .width = heads * up_to(8) * scale,
           .heads = heads,
           .vocabulary = up_to(200) * scale,
           .sequence = (1 + up_to(63)) * scale,
           .batch = 1 + up_to(3)},
          {.compute = compute[random() % 3], .states = up_to(2), .drops_out = random() % 2 == 0}};
}

TEST(EstimateTransformer, AgreesWithGraphsOfTheZooInEveryByte) {
  for (std::uint64_t seed = 0; seed < sweep(300U, 60U); ++seed) {
    SCOPED_TRACE(seed);
    const auto [sizes, training] = random_case(seed, 1);
    const Estimate graph = of_zoo(sizes, training);
    const Estimate formula = estimate::from_sizes(sizes, training);
    EXPECT_EQ(formula.parameters, graph.parameters);
    for (const char* part : {"parameters", "gradients", "batch", "constants"}) {
      EXPECT_EQ(estimate::bytes_of(formula.whole, part), estimate::bytes_of(graph.whole, part))
          << part;
    }
    // The graph counts the learning rate, the steps and the scale of the loss, too.
    EXPECT_NEAR(estimate::bytes_of(formula.whole, "optimizer state"),
                estimate::bytes_of(graph.whole, "optimizer state"), 24);
    EXPECT_NEAR(estimate::bytes_of(formula.whole, "activations"),
                estimate::bytes_of(graph.whole, "activations"), 8);
  }
}

TEST(EstimateTransformer, CountsOfOneSequenceAllButTheQueriesBeforeTheyAreScaled) {
  TransformerSizes sizes = kGpt3.at("gpt3-small");
  sizes.layers = 3;
  const Bytes stream = sizes.sequence * sizes.width;
  EXPECT_NEAR(estimate::bytes_of(of_zoo(sizes, {}).whole, "activations"),
              estimate::bytes_of(estimate::from_sizes(sizes, {}).whole, "activations") +
                  sizes.layers * stream * 4,
              8);
}

TEST(EstimateTransformer, PeaksAgreeWithGraphsOfTheZoo) {
  for (std::uint64_t seed = 0; seed < sweep(300U, 60U); ++seed) {
    SCOPED_TRACE(seed);
    const auto [sizes, training] = random_case(seed, 16);
    const auto graph = static_cast<double>(of_zoo(sizes, training).peak_bytes);
    const auto formula = static_cast<double>(estimate::from_sizes(sizes, training).peak_bytes);
    EXPECT_NEAR(formula / graph, 1, 0.05);
  }
}

TEST(EstimateTransformer, HasTheParametersOfGpt3) {
  for (const auto& [name, sizes] : kGpt3) {
    SCOPED_TRACE(name);
    const std::int64_t count = estimate::count_parameters(sizes);
    EXPECT_NEAR(static_cast<double>(count) / 1e6 / kPublishedMillions.at(name), 1, 0.02);
    // N x 4 or N x 2 bytes of weights, and 3 N numbers more for Adam: gradients and two states.
    const Estimate full = estimate::from_sizes(sizes, {});
    EXPECT_EQ(estimate::bytes_of(full.whole, "parameters"), 4 * count);
    EXPECT_EQ(estimate::bytes_of(full.whole, "gradients") +
                  estimate::bytes_of(full.whole, "optimizer state"),
              3 * 4 * count);
    const Estimate half =
        estimate::from_sizes(sizes, {.compute = DType::bf16, .master_copy = true});
    EXPECT_EQ(estimate::bytes_of(half.whole, "parameters"), 2 * count);
    EXPECT_EQ(estimate::bytes_of(half.whole, "gradients"), 2 * count);
    EXPECT_EQ(estimate::bytes_of(half.whole, "optimizer state"), 12 * count);
  }
}

TEST(EstimateTransformer, HasTheActivationsOfKorthikanti) {
  for (const auto& [name, sizes] : kGpt3) {
    SCOPED_TRACE(name);
    const double tokens = static_cast<double>(sizes.batch * sizes.sequence);
    const double h = static_cast<double>(sizes.width), a = static_cast<double>(sizes.heads);
    const double s = static_cast<double>(sizes.sequence);
    const double published = tokens * h * (34 + 5 * a * s / h);
    EXPECT_DOUBLE_EQ(static_cast<double>(estimate::block_activations(
                         sizes, {.compute = DType::bf16, .master_copy = true})),
                     published + 16 * tokens);
  }
}

TEST(EstimateTransformer, KeepsTheInputsOfBlocksAsTheTextbookSays) {
  TransformerSizes sizes = kGpt3.at("gpt3-2.7b");
  sizes.batch = 500;
  sizes.sequence = 2000;
  const Estimate found = estimate::from_sizes(
      sizes,
      {.compute = DType::bf16, .master_copy = true, .fused_attention = true, .checkpoints = true});
  const Bytes inputs = estimate::bytes_of(found.by_layer, "inputs of the blocks");
  EXPECT_EQ(inputs, Bytes{32} * 1'000'000 * 2560 * 2);
  EXPECT_NEAR(static_cast<double>(inputs) / kGiB, 152.59, 0.005);
  // At the loss no block was computed again yet.
  EXPECT_EQ(found.peak_op, "loss");
  EXPECT_EQ(estimate::bytes_of(found.at_peak, "activations"),
            inputs + estimate::bytes_of(found.by_layer, "head"));
}

TEST(EstimateTransformer, DividesTheStateAsZeroDoes) {
  const TransformerSizes sizes = kGpt3.at("gpt3-6.7b");
  const auto state = [&](std::int64_t ranks, Shard shard) {
    const Estimate found = estimate::from_sizes(
        sizes, {.compute = DType::f16, .master_copy = true, .ranks = ranks, .shard = shard});
    return static_cast<double>(estimate::bytes_of(found.whole, "parameters") +
                               estimate::bytes_of(found.whole, "gradients") +
                               estimate::bytes_of(found.whole, "optimizer state")) /
           static_cast<double>(found.parameters);
  };
  EXPECT_NEAR(state(1, Shard::nothing), 16, 1e-6);
  EXPECT_NEAR(state(64, Shard::optimizer), 4 + 12.0 / 64, 1e-6);
  EXPECT_NEAR(state(64, Shard::gradients), 2 + 14.0 / 64, 1e-6);
  EXPECT_NEAR(state(64, Shard::parameters), 16.0 / 64, 1e-6);
}

TEST(EstimateTransformer, PartsAddUp) {
  for (std::uint64_t seed = 0; seed < sweep(3000U, 300U); ++seed) {
    SCOPED_TRACE(seed);
    auto [sizes, training] = random_case(seed, 8);
    training.master_copy = training.compute != DType::f32 && seed % 2 == 0;
    training.fused_attention = seed % 3 == 0;
    training.checkpoints = seed % 5 == 0;
    training.ranks = 1 + static_cast<std::int64_t>(seed % 4);
    training.shard = training.ranks > 1 ? Shard::parameters : Shard::nothing;
    const Estimate found = estimate::from_sizes(sizes, training);
    EXPECT_EQ(estimate::sum(found.at_peak), found.peak_bytes);
    EXPECT_EQ(estimate::sum(found.by_layer), estimate::bytes_of(found.whole, "activations"));
    EXPECT_EQ(found.parameters, estimate::count_parameters(sizes));
  }
}

TEST(EstimateTransformer, EachMeansOfSavingSaves) {
  const TransformerSizes sizes = kGpt3.at("gpt3-2.7b");
  const auto peak = [&](const TransformerTraining& training) {
    return estimate::from_sizes(sizes, training).peak_bytes;
  };
  const TransformerTraining plain = {.compute = DType::bf16, .master_copy = true};
  TransformerTraining fused = plain, checkpointed = plain, sharded = plain;
  fused.fused_attention = true;
  checkpointed.checkpoints = true;
  sharded.ranks = 8;
  Bytes least = peak(plain);
  for (const Shard shard : {Shard::optimizer, Shard::gradients, Shard::parameters}) {
    sharded.shard = shard;
    EXPECT_LE(peak(sharded), least);
    least = peak(sharded);
  }
  EXPECT_LT(peak(fused), peak(plain));
  EXPECT_LT(peak(checkpointed), peak(plain));
}

TEST(EstimateTransformer, SaysWhatDoesNotFitTogether) {
  const TransformerSizes good = kGpt3.at("gpt3-small");
  TransformerSizes sizes = good;
  sizes.width = 0;
  EXPECT_THROWS_INPUT_ERROR(estimate::from_sizes(sizes, {}),
                            HasSubstr("needs --width, and it is not given"));
  sizes = good;
  sizes.layers = -1;
  EXPECT_THROWS_INPUT_ERROR(estimate::from_sizes(sizes, {}),
                            HasSubstr("needs --layers, and it is -1"));
  sizes = good;
  sizes.heads = 7;
  EXPECT_THROWS_INPUT_ERROR(estimate::from_sizes(sizes, {}), HasSubstr("divisible by 7 heads"));
  sizes = good;
  sizes.sequence = 1'000'000'000'000;
  EXPECT_THROWS_INPUT_ERROR(estimate::from_sizes(sizes, {}), HasSubstr("more bytes than can"));
  EXPECT_THROWS_INPUT_ERROR(estimate::from_sizes(good, {.master_copy = true}),
                            HasSubstr("--precision bf16"));
  EXPECT_THROWS_INPUT_ERROR(estimate::from_sizes(good, {.ranks = 8}), HasSubstr("--shard"));
  EXPECT_THROWS_INPUT_ERROR(estimate::parse_shard("weights"),
                            AllOf(HasSubstr("weights"), HasSubstr("parameters")));
}

}  // namespace
}  // namespace lowtide::testing
