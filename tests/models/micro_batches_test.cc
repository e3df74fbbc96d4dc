#include "models/micro_batches.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "models/model.h"
#include "plan/replay.h"
#include "support/throws.h"

namespace lowtide::models {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Graph in_micro_batches(std::string_view model, const ModelOptions& sizes, std::int64_t count) {
  return training_graph(find_model(model), sizes, {}, {}, count);
}

const ModelOptions kGpt{.batch = 8, .layers = 3, .width = 32, .heads = 2, .sequence = 64};

TEST(MicroBatches, AreANumberOrAutomatic) {
  EXPECT_EQ(parse_parts("--slices", "4"), 4);
  EXPECT_EQ(parse_parts("--slices", "auto"), kAutomatic);
  for (const char* text : {"", "0", "-2", "4x", "many", "99999999999999999999"}) {
    EXPECT_THROWS_INPUT_ERROR(parse_parts("--slices", text), HasSubstr("--slices"));
  }
}

TEST(MicroBatches, AreOfOneSize) {
  EXPECT_THAT(possible_micro_batches(12), ElementsAre(1, 2, 3, 4, 6, 12));
  EXPECT_THROWS_INPUT_ERROR(in_micro_batches("gpt", kGpt, 3), HasSubstr("1, 2, 4 or 8"));
  EXPECT_THROWS_INPUT_ERROR(in_micro_batches("gpt", kGpt, 16), HasSubstr("1, 2, 4 or 8"));
  EXPECT_THROWS_INPUT_ERROR(in_micro_batches("gpt", kGpt, -1), HasSubstr("micro-batches"));
  EXPECT_THROWS_INPUT_ERROR(in_micro_batches("gpt", kGpt, kAutomatic), HasSubstr("train"));
}

TEST(MicroBatches, BatchNormalizationNeedsMoreThanOneValue) {
  const ModelOptions tiny{.batch = 2, .image = 32, .classes = 4};
  EXPECT_THROWS_INPUT_ERROR(in_micro_batches("resnet18", tiny, 2), HasSubstr("variance"));
}

TEST(MicroBatches, OneIsTheGraphWithoutThem) {
  EXPECT_EQ(in_micro_batches("gpt", kGpt, 1).name(), "gpt-b8");
  EXPECT_EQ(in_micro_batches("gpt", kGpt, 4).name(), "gpt-b8-m4");
}

TEST(MicroBatches, ShareTheResidentsOfTheWholeBatch) {
  const Graph whole = in_micro_batches("gpt", kGpt, 1), parts = in_micro_batches("gpt", kGpt, 4);
  EXPECT_EQ(parts.resident_bytes(), whole.resident_bytes());
  for (const Graph* graph : {&whole, &parts}) {
    const auto tensors = graph->tensors();
    EXPECT_EQ(std::ranges::count(tensors, Role::loss, &Tensor::role), 1);
    EXPECT_EQ(std::ranges::find(tensors, "input", &Tensor::name)->shape, Shape({8, 64}));
    EXPECT_EQ(std::ranges::count(tensors, Role::gradient, &Tensor::role),
              std::ranges::count(tensors, Role::parameter, &Tensor::role));
  }
}

/// Bytes of keep-all beside residents, of one more gradient at most.
TEST(MicroBatches, NeedTheActivationsOfOneAndOneSetOfGradients) {
  const auto values = [](const Graph& graph) {
    return keep_all_reference(graph).peak_bytes - graph.resident_bytes();
  };
  const Graph one = in_micro_batches("gpt", {.batch = 1, .layers = 3, .width = 32, .heads = 2}, 1);
  const Graph all = in_micro_batches("gpt", {.batch = 8, .layers = 3, .width = 32, .heads = 2}, 8);
  Bytes gradients = 0;
  for (const Tensor& tensor : one.tensors()) {
    if (tensor.role == Role::parameter) gradients += tensor.bytes;
  }
  EXPECT_LE(values(all), values(one) + gradients + (Bytes{64} << 10));
}

}  // namespace
}  // namespace lowtide::models
