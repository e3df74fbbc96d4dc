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
#include "slower/speed.h"

namespace lowtide::train {

/// The source of batches.
struct DataSource {
  enum class Kind : std::uint8_t { synthetic, text, mnist, cifar10 };
  Kind kind = Kind::synthetic;
  std::filesystem::path path;  ///< of the file (text) or folder (mnist, cifar10)
};

/// Reads "synthetic", "text:FILE", "mnist:FOLDER", "cifar10:FOLDER". Throws InputError with the
/// nearest names for anything else. The path becomes absolute, so that a resumed run finds it.
DataSource parse_data_source(std::string_view text);
std::string_view name(DataSource::Kind kind);

/// The options that determine the numbers of a run. A resumed run must have the same.
struct Recipe : models::StepRecipe {  // with complete sizes: the model's defaults filled in
  DataSource data;
  std::uint64_t seed = 0;
  int threads = 0;  ///< 0: chosen by the framework
};

/// How a run fits into memory. May change at each resumption: no bit of a result depends on it.
struct MemoryOptions {
  planner::PlanningOptions planning;  ///< without a strategy and a limit: keep-all
  runtime::ExecutorOptions::Memory memory = runtime::ExecutorOptions::Memory::arena;
  runtime::ExecutorOptions::Overrun overrun = runtime::ExecutorOptions::Overrun::stop;
  Bytes reserve_bytes = 0;
  std::filesystem::path disk;       ///< the folder of a file to which values may move; empty: none
  std::optional<Bytes> disk_bytes;  ///< that may lie there; none: what is free
  /// Of memory of this machine beside the budget, to which values may move too; none: nothing.
  std::optional<Bytes> host_bytes;
  std::optional<slower::LaneSpeed> host_speed;  ///< of the way to it; none: as fast as memory is

  bool may_move() const { return host_bytes || !disk.empty(); }
};

/// The same without slower memory.
MemoryOptions without_moves(MemoryOptions options);

/// All options of a training run.
struct TrainOptions {
  Recipe recipe;
  MemoryOptions memory;
  std::int64_t steps = 10;  ///< of the whole run, including steps before a resumption
  std::filesystem::path save;
  std::int64_t save_every = 0;  ///< steps; 0: at the end only

  // The rest is for one invocation and is not part of a checkpoint.
  std::filesystem::path resume;
  std::filesystem::path weights;  ///< of a forward pass: the checkpoint that has them
  std::filesystem::path profile;  ///< empty: the device's own file in the user's cache
  bool measure_again = false;     ///< measure ops again that the profile has
  bool check = false;             ///< run keep-all as well and compare every bit
  std::filesystem::path trace, plan_out, graph_out, gradients_out;
};

/// The recorded part (recipe, memory, steps, save_every) as a JSON object, and back. Reading
/// throws InputError for text that is no such object.
std::string format_options(const TrainOptions& options);
TrainOptions parse_options(std::string_view json);

/// The recipe with the model's and the optimizer's own values for what it leaves open. Throws
/// InputError for an unknown name, and for an option that the model does not read.
Recipe with_defaults(const Recipe& given);

/// The first difference between the numbers of `now` and those of `then`, as in "--model resnet50,
/// now vgg16"; nothing when the run continues exactly. A data file may move. Throws as
/// with_defaults().
std::optional<std::string> first_difference(const Recipe& then, const Recipe& now);

}  // namespace lowtide::train
