#pragma once

#include <gtest/gtest.h>
#include <torch/version.h>

#include "base/control.h"
#include "train/temp_folder.h"
#include "train/trainer.h"

namespace lowtide::train {

/// A stop request, a checkpoint or a profile must not leak from one test to another.
class TrainerTest : public ::testing::Test {
 protected:
  void SetUp() override { Control::clear_stop(); }
  void TearDown() override { Control::clear_stop(); }

  TrainOptions mlp(std::int64_t steps) const {
    TrainOptions options;
    options.recipe.model = "mlp";
    options.recipe.sizes = {.batch = 256, .image = 12, .layers = 6, .width = 64, .dropout = 0.2};
    return small(options, steps);
  }
  TrainOptions gpt(std::int64_t steps) const {
    TrainOptions options;
    options.recipe.model = "gpt";
    options.recipe.sizes = {
        .batch = 2, .layers = 4, .width = 32, .heads = 2, .sequence = 48, .dropout = 0.1};
    options.recipe.optimizer.name = "adamw";
    options.recipe.data = {DataSource::Kind::text,
                           LOWTIDE_SOURCE_DIR "/tests/train/trainer_test.cc"};
    return small(options, steps);
  }
  TrainOptions unet(std::int64_t steps) const {
    TrainOptions options;
    options.recipe.model = "unet";
    options.recipe.sizes = {.batch = 2, .image = 32, .classes = 4, .layers = 2, .width = 8};
    return small(options, steps);
  }
  TrainResult run(const TrainOptions& options) {
    return train(options, {.message = [this](const std::string& m) { messages_ += m + "\n"; },
                           .step =
                               [this](const StepProgress& p) {
                                 if (p.step == stop_after_) Control::request_stop();
                               }});
  }

  TempFolder folder_;
  std::string messages_;
  std::int64_t stop_after_ = -1;

 private:
  TrainOptions small(TrainOptions options, std::int64_t steps) const {
    options.recipe.threads = 1;
    options.steps = steps;
    options.memory.planning.seconds = 2;
    options.profile = std::filesystem::temp_directory_path() /
                      "lowtide-trainer-test-profile-" TORCH_VERSION ".json";
    return options;
  }
};

}  // namespace lowtide::train
