#include "train/planned_step.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.h"
#include "models/micro_batches.h"
#include "support/throws.h"
#include "train/trainer_fixture.h"

namespace lowtide::train {
namespace {

using ::testing::HasSubstr;

class MicroBatchesTest : public TrainerTest {
 protected:
  /// With so much work for each example that its activations are most of the memory.
  TrainOptions deep_gpt(std::int64_t micro_batches) const {
    TrainOptions options = gpt(2);
    options.recipe.sizes.batch = 4;
    options.recipe.sizes.sequence = 96;
    options.recipe.micro_batches = micro_batches;
    return options;
  }

  /// The bytes that every plan needs.
  Bytes floor_of(TrainOptions options) {
    options.memory.planning.budget = parse_budget("1");
    try {
      run(options);
    } catch (const planner::DoesNotFit& error) {
      return error.floor_bytes;
    }
    throw Error("a plan fits into one byte");
  }
};

TEST_F(MicroBatchesTest, PlansKeepTheBitsOfKeepAll) {
  for (std::int64_t count : {2, 4}) {
    TrainOptions options = deep_gpt(count);
    options.memory.planning.budget = parse_budget("85%");
    options.check = true;
    const TrainResult result = run(options);
    EXPECT_TRUE(result.bit_identical) << result.first_difference;
    EXPECT_LE(result.measured_peak_bytes, result.budget_bytes);
    EXPECT_EQ(result.micro_batches, count);
  }
}

TEST_F(MicroBatchesTest, OneIsTheFastestWhereAllFits) {
  TrainOptions options = deep_gpt(1);
  options.memory.planning.budget = parse_budget("100%");
  const Bytes whole = run(options).budget_bytes;
  options.recipe.micro_batches = models::kAutomatic;
  // Ops are measured again, where they may take other workspaces.
  options.memory.planning.budget.value = whole + whole / 10;
  EXPECT_EQ(run(options).micro_batches, 1);
}

TEST_F(MicroBatchesTest, AShareIsTheSameNumberOfBytesAsForAWholeBatch) {
  TrainOptions options = deep_gpt(1);
  options.memory.planning.budget = parse_budget("100%");
  const Bytes whole = run(options).budget_bytes;
  options.recipe.micro_batches = models::kAutomatic;
  EXPECT_EQ(run(options).budget_bytes, whole);
}

TEST_F(MicroBatchesTest, MoreAreChosenWhereFewerDoNotFit) {
  TrainOptions options = deep_gpt(1);
  const Bytes least = floor_of(options);
  options.recipe.micro_batches = models::kAutomatic;
  options.memory.planning.budget.value = least - (Bytes{32} << 10);
  const TrainResult result = run(options);
  EXPECT_GT(result.micro_batches, 1);
  EXPECT_LE(result.measured_peak_bytes, least);
}

TEST_F(MicroBatchesTest, NoNumberWithinTooLittleIsRefused) {
  TrainOptions options = deep_gpt(models::kAutomatic);
  options.memory.planning.budget = parse_budget("1");
  EXPECT_THROW(run(options), InfeasibleError);
}

TEST_F(MicroBatchesTest, AResumedRunHasTheChosenNumber) {
  TrainOptions options = deep_gpt(4);
  options.save = folder_.path() / "run";
  run(options);
  TrainOptions resumed = deep_gpt(models::kAutomatic);
  resumed.steps = 3;
  resumed.resume = options.save;
  EXPECT_EQ(run(resumed).micro_batches, 4);
  resumed.recipe.micro_batches = 2;
  EXPECT_THROW(run(resumed), InputError);
}

class SlicesTest : public TrainerTest {
 protected:
  /// Whose head is its largest op.
  TrainOptions wide_gpt(std::int64_t slices) const {
    TrainOptions options = gpt(2);
    options.recipe.sizes.batch = 4;
    options.recipe.sizes.vocabulary = 2000;
    options.recipe.slices = slices;
    return options;
  }

  /// The smallest budget that a refusal names.
  Bytes least_of(TrainOptions options) {
    options.memory.planning.budget = parse_budget("1");
    try {
      run(options);
    } catch (const planner::DoesNotFit& error) {
      return error.smallest_budget_bytes.value();
    }
    throw Error("a plan fits into one byte");
  }
};

TEST_F(SlicesTest, OneIsTheFastestWhereAllFits) {
  EXPECT_EQ(run(wide_gpt(models::kAutomatic)).slices, 1);
}

TEST_F(SlicesTest, MoreAreChosenWhereOneDoesNotFit) {
  TrainOptions options = wide_gpt(models::kAutomatic);
  const Bytes whole = least_of(wide_gpt(1)), in_fours = least_of(wide_gpt(4));
  EXPECT_LT(in_fours, whole);
  options.memory.planning.budget.value = in_fours + (whole - in_fours) / 2;
  options.check = true;
  const TrainResult result = run(options);
  EXPECT_GT(result.slices, 1);
  EXPECT_TRUE(result.bit_identical) << result.first_difference;
  EXPECT_LE(result.measured_peak_bytes, result.budget_bytes);
}

TEST_F(SlicesTest, ARefusalNamesTheBudgetOfTheNumberThatNeedsTheLeast) {
  const Bytes least =
      std::min({least_of(wide_gpt(1)), least_of(wide_gpt(2)), least_of(wide_gpt(4))});
  EXPECT_NEAR(static_cast<double>(least_of(wide_gpt(models::kAutomatic))),
              static_cast<double>(least), 0.05 * static_cast<double>(least));
}

TEST_F(SlicesTest, AResumedRunHasTheChosenNumber) {
  TrainOptions options = wide_gpt(2);
  options.save = folder_.path() / "run";
  run(options);
  TrainOptions resumed = wide_gpt(models::kAutomatic);
  resumed.steps = 3;
  resumed.resume = options.save;
  EXPECT_EQ(run(resumed).slices, 2);
}

TEST_F(SlicesTest, OneNumberIsChosen) {
  TrainOptions options = wide_gpt(models::kAutomatic);
  options.recipe.micro_batches = models::kAutomatic;
  EXPECT_THROWS_INPUT_ERROR(run(options), HasSubstr("give a number of one of them"));
}

}  // namespace
}  // namespace lowtide::train
