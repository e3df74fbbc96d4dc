#include "train/trainer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/budget.h"
#include "base/control.h"
#include "base/error.h"
#include "cost/profile.h"
#include "graph/io.h"
#include "plan/io.h"
#include "plan/verify.h"
#include "slower/disk.h"
#include "train/checkpoint.h"
#include "train/prepare.h"
#include "train/safetensors.h"
#include "train/trainer_fixture.h"

namespace lowtide::train {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST_F(TrainerTest, TheBudgetHoldsAllThatADiskTakesForCopiesWhereAPlanMoves) {
  TrainOptions options = mlp(1);
  options.recipe.sizes.batch = 1 << 15;
  options.profile = folder_.path() / "profile.json";
  const Step step = prepare_step(options, Control());
  const Bytes peak = step.keep_all.peak_bytes;
  const Bytes buffers = slower::Disk(folder_.path()).buffer_bytes();
  ASSERT_GT(peak, 3 * buffers);
  const auto reserved = [&](Bytes budget) {
    options.memory.planning.budget.value = budget;
    return fit(step, options.memory, {}).division.executor_bytes;
  };
  const Bytes without = reserved(2 * peak);
  options.memory.disk = folder_.path();
  options.memory.planning.strategy = "offload";
  EXPECT_EQ(reserved(2 * peak), without);
  EXPECT_EQ(reserved(peak * 3 / 4), without + buffers);
}

TEST_F(TrainerTest, AResumedRunEqualsAnUninterruptedOne) {
  for (TrainOptions options : {mlp(6), gpt(6)}) {
    options.save = folder_ / "whole.ckpt";
    const TrainResult whole = run(options);
    ASSERT_EQ(whole.losses.size(), 6u);

    options.save = folder_ / "part.ckpt";
    options.steps = 3;
    const TrainResult first = run(options);
    TrainOptions resumed = resumed_options(folder_ / "part.ckpt");
    resumed.profile = options.profile;
    resumed.steps = 6;
    resumed.memory.planning.budget = parse_budget("85%");  // another plan, the same bits
    const TrainResult second = run(resumed);

    EXPECT_EQ(second.first_step, 3);
    std::vector<double> losses = first.losses;
    losses.insert(losses.end(), second.losses.begin(), second.losses.end());
    EXPECT_EQ(losses, whole.losses);
    SafetensorsReader a(folder_ / "whole.ckpt"), b(folder_ / "part.ckpt");
    ASSERT_EQ(a.entries().size(), b.entries().size());
    for (std::size_t i = 0; i < a.entries().size(); ++i) {
      std::string in_a(a.entries()[i].end - a.entries()[i].begin, ' '), in_b = in_a;
      a.read(a.entries()[i], in_a);
      b.read(b.entries()[i], in_b);
      EXPECT_EQ(in_a == in_b, true) << a.entries()[i].name;
    }
  }
}

TEST_F(TrainerTest, BudgetsAreKeptAndChangeNoBit) {
  for (TrainOptions options : {mlp(3), gpt(3)}) {
    for (const char* budget : {"90%", "75%"}) {
      options.memory.planning.budget = parse_budget(budget);
      options.check = true;
      const TrainResult result = run(options);
      EXPECT_EQ(result.bit_identical, true) << budget << ": " << result.first_difference;
      EXPECT_LE(result.arena_bytes, result.budget_bytes) << budget;
      EXPECT_LE(result.planned_peak_bytes, result.arena_bytes) << budget;
      EXPECT_LE(result.measured_peak_bytes, result.budget_bytes) << budget;
      EXPECT_EQ(result.outside_bytes, 0) << budget;
      EXPECT_GT(result.allocations, 0) << budget;
    }
  }
}

TEST_F(TrainerTest, ThePoolComputesTheSame) {
  TrainOptions options = gpt(2);
  const std::vector<double> planned = run(options).losses;
  options.memory.memory = runtime::ExecutorOptions::Memory::pool;
  EXPECT_EQ(run(options).losses, planned);
}

TEST_F(TrainerTest, ThePoolStaysWithinTheBudgetOrEndsTheRun) {
  TrainOptions options = mlp(2);
  options.recipe.model = "unet";
  options.recipe.sizes = {.batch = 2, .image = 32, .layers = 2, .width = 8};
  options.memory.planning.seconds = 0.5;
  options.memory.memory = runtime::ExecutorOptions::Memory::pool;
  int refused = 0;
  for (const char* budget : {"100%", "85%", "70%", "60%"}) {
    options.memory.planning.budget = parse_budget(budget);
    try {
      const TrainResult result = run(options);
      EXPECT_LE(result.measured_peak_bytes, result.budget_bytes) << budget;
    } catch (const InfeasibleError& error) {
      EXPECT_THAT(error.what(), AllOf(HasSubstr("the memory pool needs"), HasSubstr("may take"),
                                      HasSubstr("--memory static")));
      ++refused;
    }
  }
  EXPECT_GT(refused, 0);
}

TEST_F(TrainerTest, LearnsText) {
  TrainOptions options = gpt(40);
  options.recipe.sizes.dropout = 0;
  options.recipe.optimizer.learning_rate = 3e-3;
  const TrainResult result = run(options);
  EXPECT_LT(result.losses.back(), 0.8 * result.losses.front());
}

TEST_F(TrainerTest, AStopEndsAfterAWholeStepAndSaves) {
  TrainOptions options = mlp(50);
  options.save = folder_ / "run.ckpt";
  stop_after_ = 4;
  const TrainResult stopped = run(options);
  EXPECT_TRUE(stopped.stopped);
  EXPECT_EQ(stopped.losses.size(), 4u);
  EXPECT_EQ(read_run_state(options.save).step, 4);
}

TEST_F(TrainerTest, AStopBeforeTheFirstStepIsSaidSo) {
  Control::request_stop();
  EXPECT_THROW(run(mlp(5)), StoppedError);
}

TEST_F(TrainerTest, ACompleteRunHasNothingToDo) {
  TrainOptions options = mlp(2);
  options.save = folder_ / "run.ckpt";
  run(options);
  TrainOptions again = resumed_options(options.save);
  again.profile = options.profile;
  const TrainResult result = run(again);
  EXPECT_TRUE(result.losses.empty());
  EXPECT_FALSE(result.stopped);
  EXPECT_EQ(result.first_step, 2);
}

TEST_F(TrainerTest, ACheckpointOfAnotherRunIsRefused) {
  TrainOptions options = mlp(2);
  options.save = folder_ / "run.ckpt";
  run(options);
  TrainOptions other = resumed_options(options.save);
  other.profile = options.profile;
  other.steps = 4;
  other.recipe.sizes.width = 128;
  EXPECT_THAT(
      [&] { run(other); },
      ThrowsMessage<InputError>(AllOf(HasSubstr("another run"), HasSubstr("--width 64, now 128"))));
}

TEST_F(TrainerTest, OtherDataIsRefused) {
  TrainOptions options = gpt(1);
  put(folder_ / "text", std::string(500, 'a'));
  options.recipe.data.path = folder_ / "text";
  options.save = folder_ / "run.ckpt";
  run(options);
  put(folder_ / "text", std::string(600, 'a'));
  TrainOptions resumed = resumed_options(options.save);
  resumed.profile = options.profile;
  resumed.steps = 2;
  EXPECT_THAT([&] { run(resumed); },
              ThrowsMessage<InputError>(AllOf(HasSubstr("500 bytes"), HasSubstr("600 bytes"))));
}

TEST_F(TrainerTest, AnImpossibleBudgetIsRefusedBeforeTheFirstOp) {
  TrainOptions options = mlp(1);
  options.memory.planning.budget = parse_budget("1KiB");
  EXPECT_THAT([&] { run(options); }, ThrowsMessage<InfeasibleError>(HasSubstr("alone needs")));
}

TEST_F(TrainerTest, AnUnsavableCheckpointDoesNotEndTheRun) {
  TrainOptions options = mlp(4);
  options.save = "/dev/full";
  options.save_every = 1;
  const TrainResult result = run(options);
  EXPECT_EQ(result.losses.size(), 4u);
  EXPECT_THAT(result.save_error, HasSubstr("/dev/full"));
  EXPECT_THAT(messages_, HasSubstr("step 1 is not saved"));
}

TEST_F(TrainerTest, AMissingFolderIsNoticedBeforeTheWork) {
  TrainOptions options = mlp(1);
  options.save = folder_ / "none" / "run.ckpt";
  EXPECT_THAT([&] { run(options); }, ThrowsMessage<InputError>(HasSubstr("no folder")));
}

TEST_F(TrainerTest, AProfileOfAnotherDeviceIsRefused) {
  TrainOptions options = mlp(1);
  options.profile = folder_ / "profile.json";
  cost::write_profile({.device = "a computer far away", .ops = {}}, options.profile);
  EXPECT_THAT([&] { run(options); }, ThrowsMessage<InputError>(HasSubstr("a computer far away")));
}

TEST_F(TrainerTest, ANewProfileMakesNoFolder) {
  TrainOptions options = mlp(1);
  options.profile = folder_ / "none" / "profile.json";
  EXPECT_THAT([&] { run(options); }, ThrowsMessage<InputError>(HasSubstr("no folder")));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "none"));
}

/// Every output in turn, over every input and every other output.
TEST_F(TrainerTest, NoResultIsWrittenOverAnInputOrAnotherResult) {
  put(folder_ / "text", std::string(500, 'a'));
  TrainOptions options = gpt(2);
  options.recipe.data.path = folder_ / "text";
  options.save = folder_ / "run.ckpt";
  run(options);
  const std::string checkpoint = content_of(options.save);

  using Path = std::filesystem::path TrainOptions::*;
  const Path results[] = {&TrainOptions::trace, &TrainOptions::plan_out, &TrainOptions::graph_out,
                          &TrainOptions::gradients_out};
  const auto refuses = [&](const TrainOptions& o) {
    EXPECT_THAT([&] { run(o); }, ThrowsMessage<InputError>(HasSubstr("would be written over")));
  };
  for (const Path result : results) {
    TrainOptions resumed = resumed_options(folder_ / "run.ckpt");
    resumed.steps = 3;
    resumed.profile = folder_ / "profile.json";
    for (const char* name : {"run.ckpt", "text", "profile.json"}) {
      resumed.*result = folder_ / name;
      refuses(resumed);
    }
    resumed.*result = folder_ / "run.ckpt";
    resumed.save = folder_ / "other.ckpt";  // and not over what is read either
    refuses(resumed);
    for (const Path other : results) {
      if (other == result) continue;
      resumed.*result = resumed.*other = folder_ / "x";
      refuses(resumed);
      (resumed.*other).clear();
    }
  }
  for (const char* name : {"text", "profile.json"}) {
    TrainOptions other = options;
    other.profile = folder_ / "profile.json";
    other.save = folder_ / name;
    refuses(other);
  }
  EXPECT_EQ(content_of(folder_ / "run.ckpt"), checkpoint);
  EXPECT_EQ(content_of(folder_ / "text"), std::string(500, 'a'));
}

TEST_F(TrainerTest, NoResultIsWrittenOverImages) {
  TrainOptions options = mlp(1);
  for (const char* name : {"train-images-idx3-ubyte", "train-labels-idx1-ubyte"}) {
    options.recipe.data = {DataSource::Kind::mnist, folder_.path()};
    options.save = folder_ / name;
    EXPECT_THAT([&] { run(options); },
                ThrowsMessage<InputError>(HasSubstr("would be written over")));
  }
  options.recipe.data = {DataSource::Kind::cifar10, folder_.path()};
  options.save = folder_ / "data_batch_5.bin";
  EXPECT_THAT([&] { run(options); }, ThrowsMessage<InputError>(HasSubstr("would be written over")));
}

TEST_F(TrainerTest, WritesPlanGraphTraceAndGradients) {
  TrainOptions options = mlp(2);
  options.memory.planning.budget = parse_budget("80%");
  options.plan_out = folder_ / "plan.json";
  options.graph_out = folder_ / "graph.json";
  options.trace = folder_ / "trace.json";
  options.gradients_out = folder_ / "gradients.safetensors";
  run(options);
  const Graph graph = read_graph(options.graph_out);
  EXPECT_FALSE(verify(graph, read_plan(options.plan_out)));
  EXPECT_GT(std::filesystem::file_size(options.trace), 100u);
  const SafetensorsReader gradients(options.gradients_out);
  EXPECT_EQ(gradients.entries().size(), 12u);  // six weights, six biases
}

}  // namespace
}  // namespace lowtide::train
