#include "train/checkpoint.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/budget.h"
#include "base/error.h"
#include "train/safetensors.h"
#include "train/temp_folder.h"

namespace lowtide::train {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

std::vector<NamedTensor> tensors(double value) {
  return {in_memory("w", DType::f32, at::full({3, 5}, value, at::kFloat)),
          in_memory("n", DType::i64, at::full({}, value, at::kLong)),
          in_memory("empty", DType::f32, at::empty({0, 4})),
          in_memory("mask", DType::boolean, at::ones({7}, at::kBool))};
}

RunState state_at(std::int64_t step) {
  RunState state;
  state.options.recipe.model = "mlp";
  state.options.recipe.sizes.batch = 3;
  state.options.recipe.sizes.dropout = 0.1;
  state.options.recipe.seed = 0xFFFFFFFFFFFFFFFFu;
  state.options.memory.planning.budget = parse_budget("60%");
  state.options.memory.planning.strategy_options = {{"segments", 4}, {"x", "y"}};
  state.options.memory.memory = runtime::ExecutorOptions::Memory::pool;
  state.options.steps = 77;
  state.data = "text of 5 bytes \"quoted\"";
  state.step = step;
  return state;
}

class CheckpointTest : public ::testing::Test {
 protected:
  void save(double value = 2, std::int64_t step = 6) {
    save_checkpoint(file_, state_at(step), tensors(value));
  }
  TempFolder folder_;
  std::filesystem::path file_ = folder_ / "run.ckpt";
};

TEST_F(CheckpointTest, BringsBackTensorsOptionsAndGenerator) {
  at::manual_seed(5);
  at::rand({3});
  save();
  const at::Tensor next = at::randn({9});
  auto loaded = tensors(0);
  load_checkpoint(file_, loaded);
  const auto saved = tensors(2);
  for (std::size_t i = 0; i < saved.size(); ++i)
    EXPECT_TRUE(loaded[i].get().equal(saved[i].get()));
  EXPECT_TRUE(at::randn({9}).equal(next));
  const RunState state = read_run_state(file_);
  EXPECT_EQ(state.step, 6);
  EXPECT_EQ(state.data, state_at(6).data);
  EXPECT_EQ(format_options(state.options), format_options(state_at(6).options));
  EXPECT_EQ(state.options.recipe.seed, 0xFFFFFFFFFFFFFFFFu);
}

TEST_F(CheckpointTest, IsRefusedAtEveryLengthThatCutsItShort) {
  save();
  const std::string whole = content_of(file_);
  for (std::size_t length = 0; length < whole.size(); length += length < 700 ? 1 : 97) {
    put(file_, whole.substr(0, length));
    EXPECT_THROW(load_checkpoint(file_, tensors(0)), InputError) << length << " bytes";
  }
}

TEST_F(CheckpointTest, IsRefusedWithAnyBitFlippedOrMoreAtTheEnd) {
  save();
  const std::string whole = content_of(file_);
  for (std::size_t at = 0; at < whole.size(); at += at < 900 ? 3 : 61) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ 4);
    if (damaged[at] == whole[at]) continue;
    put(file_, damaged);
    try {
      load_checkpoint(file_, tensors(0));
      ADD_FAILURE() << "byte " << at << " '" << whole[at] << "' was changed unnoticed";
    } catch (const InputError&) {
    }
  }
  put(file_, whole + "x");
  EXPECT_THAT([&] { load_checkpoint(file_, tensors(0)); },
              ThrowsMessage<InputError>(HasSubstr("more in it")));
}

TEST_F(CheckpointTest, OfAnotherModelIsRefusedByName) {
  save();
  const auto load = [&](std::vector<NamedTensor> into) {
    return [this, into] { load_checkpoint(file_, into); };
  };
  auto missing = tensors(0);
  missing.push_back(in_memory("v", DType::f32, at::zeros({1})));
  EXPECT_THAT(load(missing), ThrowsMessage<InputError>(
                                 AllOf(HasSubstr("another model"), HasSubstr("no tensor v"))));
  auto surplus = tensors(0);
  surplus.erase(surplus.begin());
  EXPECT_THAT(load(surplus), ThrowsMessage<InputError>(HasSubstr("this model has no tensor w")));
  auto reshaped = tensors(0);
  reshaped[0] = in_memory("w", DType::f32, at::zeros({5, 3}));
  EXPECT_THAT(load(reshaped),
              ThrowsMessage<InputError>(AllOf(HasSubstr("f32[3, 5]"), HasSubstr("f32[5, 3]"))));
}

TEST_F(CheckpointTest, OtherSafetensorsFilesAreRefused) {
  write_safetensors(file_, {}, {{"format", "pt"}});
  EXPECT_THAT([&] { read_run_state(file_); },
              ThrowsMessage<InputError>(HasSubstr("format \"pt\"")));
  write_safetensors(file_, {}, {});
  EXPECT_THAT([&] { read_run_state(file_); },
              ThrowsMessage<InputError>(HasSubstr("not a checkpoint")));
  EXPECT_THAT([&] { read_run_state(folder_ / "none"); },
              ThrowsMessage<InputError>(HasSubstr("no such file")));
}

TEST_F(CheckpointTest, StoresComplexNumbersAsFarAsTheFormatHasThem) {
  const std::string bytes(8, '\x40');
  write_safetensors(file_, {{"z", DType::c64, {1}, bytes}}, {});
  SafetensorsReader reader(file_);
  ASSERT_EQ(reader.entries().size(), 1u);
  EXPECT_EQ(reader.entries()[0].dtype, DType::c64);
  std::string read(8, ' ');
  reader.read(reader.entries()[0], read);
  EXPECT_EQ(read, bytes);
  const std::string wide(16, '\x40');
  EXPECT_THAT([&] { write_safetensors(file_, {{"z", DType::c128, {1}, wide}}, {}); },
              ThrowsMessage<InputError>(HasSubstr("c128")));
  EXPECT_EQ(SafetensorsReader(file_).entries().size(), 1u);  // the old file is unchanged
}

TEST_F(CheckpointTest, AFullDiskLeavesTheOldOne) {
  save(1, 1);
  const std::string before = content_of(file_);
  EXPECT_THROW(save_checkpoint("/dev/full", state_at(2), tensors(2)), Error);
  std::filesystem::create_directory(folder_ / "run.ckpt.partial");  // no temporary file is possible
  EXPECT_THROW(save(2, 2), Error);
  EXPECT_EQ(content_of(file_), before);
}

TEST_F(CheckpointTest, SurvivesBeingKilledAtAnyMoment) {
  save(0, 0);
  for (int round = 0; round < 30; ++round) {
    const pid_t child = ::fork();
    if (child == 0) {
      for (std::int64_t step = 1;; ++step) save(static_cast<double>(step), step);
    }
    ::usleep(static_cast<useconds_t>(500 + 700 * round));
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    auto loaded = tensors(-1);
    ASSERT_NO_THROW(load_checkpoint(file_, loaded));
    const auto step = static_cast<double>(read_run_state(file_).step);
    ASSERT_TRUE(loaded[0].get().equal(at::full({3, 5}, step, at::kFloat)));
  }
  EXPECT_GT(read_run_state(file_).step, 0);
}

TEST(Recipe, NamesTheFirstDifference) {
  Recipe a = state_at(0).options.recipe, b = a;
  EXPECT_EQ(first_difference(a, b), std::nullopt);
  b.data.path = "/moved";
  EXPECT_EQ(first_difference(a, b), std::nullopt);
  b.sizes.batch = 4;
  EXPECT_EQ(first_difference(a, b), "--batch 3, now 4");
  b = a;
  b.model = "vgg16";
  EXPECT_EQ(first_difference(a, b), "--model mlp, now vgg16");
  b = a;
  b.optimizer.momentum = 0.5;
  EXPECT_EQ(first_difference(a, b), "--momentum 0.9, now 0.5");
}

TEST(Recipe, ComparesTheValuesThatARunTakes) {
  const Recipe a = state_at(0).options.recipe;
  Recipe b = a;
  b.optimizer.learning_rate = 0.1;  // the default
  b.sizes = with_defaults(a).sizes;
  EXPECT_EQ(first_difference(a, b), std::nullopt);
  b.optimizer.learning_rate = 0.5;
  EXPECT_EQ(first_difference(a, b), "--lr 0.1, now 0.5");
  b.optimizer.name = "adam";
  EXPECT_EQ(first_difference(a, b), "--optimizer sgd, now adam");
}

TEST(Recipe, MayNotGetAnOptionThatTheModelDoesNotRead) {
  Recipe a = state_at(0).options.recipe;
  a.model = "unet";
  a.sizes = {};
  Recipe b = a;
  b.sizes.dropout = 0.5;
  EXPECT_THAT([&] { first_difference(a, b); }, ThrowsMessage<InputError>(HasSubstr("dropout")));
}

}  // namespace
}  // namespace lowtide::train
