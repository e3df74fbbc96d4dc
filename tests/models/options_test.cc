#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "base/error.h"
#include "models/model.h"

namespace lowtide::models {
namespace {

using testing::AllOf;
using testing::HasSubstr;

/// The message with which `make` refuses; a failure when it does not.
template <typename Make>
std::string refusal(Make make) {
  try {
    make();
  } catch (const InputError& error) {
    return error.what();
  }
  ADD_FAILURE() << "nothing was refused";
  return "";
}

std::string option_refusal(std::string_view model, const ModelOptions& options) {
  return refusal([&] { with_defaults(find_model(model), options); });
}

std::string build_refusal(std::string_view model, const ModelOptions& options,
                          const OptimizerOptions& optimizer = {}) {
  return refusal([&] { training_graph(find_model(model), options, optimizer); });
}

TEST(FindModel, NamesTheNearest) {
  EXPECT_THAT(refusal([] { find_model("resnet5O"); }),
              AllOf(HasSubstr("\"resnet5O\""), HasSubstr("resnet50")));
}

TEST(WithDefaults, FillsInAndOverrides) {
  const ModelOptions options = with_defaults(find_model("gpt"), {.batch = 2, .layers = 3});
  EXPECT_EQ(options.batch, 2);
  EXPECT_EQ(options.layers, 3);
  EXPECT_EQ(options.width, 512);
  EXPECT_EQ(options.dropout, 0.1);
}

TEST(WithDefaults, TakesADropoutOfZero) {
  EXPECT_EQ(with_defaults(find_model("gpt"), {.dropout = 0}).dropout, 0);
}

TEST(WithDefaults, RefusesWhatTheModelDoesNotReadAndListsWhatItReads) {
  EXPECT_THAT(option_refusal("resnet50", {.heads = 8}),
              AllOf(HasSubstr("resnet50"), HasSubstr("\"heads\""),
                    HasSubstr("reads: batch, image, classes")));
  EXPECT_THAT(option_refusal("resnet50", {.dropout = 0.5}), HasSubstr("\"dropout\""));
}

TEST(WithDefaults, RefusesSizesOutOfRange) {
  EXPECT_THAT(option_refusal("resnet50", {.batch = -1}), HasSubstr("batch must be between 1"));
  EXPECT_THAT(option_refusal("gpt", {.sequence = std::numeric_limits<std::int64_t>::max()}),
              HasSubstr("sequence must be between 1"));
  EXPECT_THAT(option_refusal("gpt", {.dropout = 1}), HasSubstr("below 1"));
}

TEST(Build, RefusesImagesThatAreTooSmall) {
  EXPECT_THAT(build_refusal("resnet50", {.image = 16}),
              AllOf(HasSubstr("16 x 16"), HasSubstr("needs 32 x 32")));
  EXPECT_THAT(build_refusal("inceptionv3", {.image = 298}), HasSubstr("needs 299 x 299"));
}

TEST(Build, RefusesImagesThatDoNotDivide) {
  EXPECT_THAT(build_refusal("vit-small", {.image = 100}), HasSubstr("multiple of 16"));
  EXPECT_THAT(build_refusal("unet", {.image = 250}), HasSubstr("multiple of 16"));
  EXPECT_THAT(build_refusal("fcn8", {.image = 250}), HasSubstr("multiple of 32"));
}

TEST(Build, RefusesHeadsThatDoNotDivideTheWidth) {
  EXPECT_THAT(build_refusal("gpt", {.width = 100, .heads = 7}),
              AllOf(HasSubstr("width 100"), HasSubstr("7 heads")));
}

TEST(Build, RefusesBatchNormalizationOfSingleValues) {
  EXPECT_THAT(build_refusal("resnet18", {.batch = 1, .image = 32}),
              AllOf(HasSubstr("layer4"), HasSubstr("larger batch")));
}

TEST(Build, RefusesSizesThatNoMachineHas) {
  const std::int64_t huge = std::int64_t{1} << 31;
  EXPECT_THAT(build_refusal("gpt", {.batch = huge, .sequence = huge}), HasSubstr("bytes"));
}

TEST(Optimizer, RefusesUnknownNamesAndBadNumbers) {
  EXPECT_THAT(build_refusal("mlp", {}, {.name = "rmsprop"}),
              AllOf(HasSubstr("\"rmsprop\""), HasSubstr("adamw")));
  EXPECT_THAT(build_refusal("mlp", {}, {.learning_rate = -1}), HasSubstr("learning rate"));
  EXPECT_THAT(build_refusal("mlp", {}, {.momentum = 1.5}), HasSubstr("momentum"));
  EXPECT_THAT(build_refusal("mlp", {}, {.name = "adam", .beta2 = 1}), HasSubstr("beta2"));
}

}  // namespace
}  // namespace lowtide::models
