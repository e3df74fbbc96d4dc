#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "models/step_recipe.h"
#include "planner/planning_options.h"
#include "runtime/executor_options.h"

namespace lowtide::train {

/// Where batches come from.
struct DataSource {
  enum class Kind : std::uint8_t { synthetic, text, mnist, cifar10 };
  Kind kind = Kind::synthetic;
  std::filesystem::path path;  ///< of the file (text) or folder (mnist, cifar10)
};

/// Reads "synthetic", "text:FILE", "mnist:FOLDER", "cifar10:FOLDER". Throws InputError with the
/// nearest names for anything else. The path becomes absolute, so that a resumed run finds it.
DataSource parse_data_source(std::string_view text);
std::string_view name(DataSource::Kind kind);

/// What the numbers of a run depend on. A resumed run must have the same.
struct Recipe : models::StepRecipe {  // with complete sizes: the model's defaults filled in
  DataSource data;
  std::uint64_t seed = 0;
  int threads = 0;  ///< 0: as many as the framework chooses
};

/// How a run is fitted into memory. May change whenever it is resumed: no bit depends on it.
struct MemoryOptions {
  planner::PlanningOptions planning;  ///< without a strategy and a limit: keep-all
  runtime::ExecutorOptions::Memory memory = runtime::ExecutorOptions::Memory::arena;
  runtime::ExecutorOptions::Overrun overrun = runtime::ExecutorOptions::Overrun::stop;
  Bytes reserve_bytes = 0;
};

/// Everything that a user asks of a training run.
struct TrainOptions {
  Recipe recipe;
  MemoryOptions memory;
  std::int64_t steps = 10;  ///< of the whole run, those before a resumption included
  std::filesystem::path save;
  std::int64_t save_every = 0;  ///< steps; 0: at the end only

  // The rest concerns one invocation and is not part of a checkpoint.
  std::filesystem::path resume;
  std::filesystem::path profile;  ///< empty: the device's own file in the user's cache
  bool measure_again = false;     ///< measure the ops that the profile has once more
  bool check = false;             ///< run keep-all as well and compare every bit
  std::filesystem::path trace, plan_out, graph_out, gradients_out;
};

/// The recorded part (recipe, memory, steps, save_every) as a JSON object, and back. Reading
/// throws InputError for text that is no such object.
std::string format_options(const TrainOptions& options);
TrainOptions parse_options(std::string_view json);

/// What `now` changes in the numbers of a run that `then` began: "model: resnet50, now vgg16" for
/// the first differing entry; nothing when a resumption goes on exactly. A data file may move.
std::optional<std::string> first_difference(const Recipe& then, const Recipe& now);

}  // namespace lowtide::train
