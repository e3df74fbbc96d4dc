#include <fmt/format.h>

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>

#include "base/budget.h"
#include "base/error.h"
#include "base/nearest.h"
#include "cli/arguments.h"
#include "cli/command.h"
#include "cli/output.h"
#include "cli/training/live_training.h"
#include "cli/training/run_options.h"
#include "cli/training/step_lines.h"
#include "cli/training/train_report.h"
#include "train/checkpoint.h"
#include "train/trainer.h"

namespace lowtide::cli {
namespace {

using Memory = runtime::ExecutorOptions::Memory;
using Overrun = runtime::ExecutorOptions::Overrun;

struct TrainArguments {
  Edits<models::StepRecipe> recipe;
  Edits<planner::PlanningOptions> planning;
  Edits<train::TrainOptions> edits;
  HostArguments host;
  std::string resume;
  bool live = false;
  std::optional<std::uint16_t> port;
  bool quiet = false;
  bool json = false;
};

/// Reads one of two words; returns whether it is the second.
bool is_second(const std::string& option, const std::string& value, const std::string& first,
               const std::string& second) {
  if (value != first && value != second) {
    throw InputError(fmt::format("{} is {} or {}, not \"{}\".{}", option, first, second, value,
                                 did_you_mean(value, {first, second})));
  }
  return value == second;
}

void set_memory(train::TrainOptions& o, const std::string& value) {
  o.memory.memory = is_second("--memory", value, "static", "pool") ? Memory::pool : Memory::arena;
}

void set_overrun(train::TrainOptions& o, const std::string& value) {
  o.memory.overrun =
      is_second("--overrun", value, "stop", "reserve") ? Overrun::reserve : Overrun::stop;
}

void add_run_options(CLI::App& app, Edits<train::TrainOptions>& edits) {
  const char* group = "Run";
  add_edit<std::int64_t>(app, edits, "--steps", "Steps of the whole run [10]",
                         [](train::TrainOptions& o, std::int64_t n) { o.steps = n; })
      ->check(in_whole_range(1, kLargestWhole))
      ->type_name("N")
      ->group(group);
  add_data_options(app, edits);
}

void add_memory_options(CLI::App& app, Edits<train::TrainOptions>& edits) {
  const char* group = "Memory";
  add_budget_option(app, edits);
  add_edit<std::string>(app, edits, "--memory",
                        "static: planned addresses; pool: allocate when needed [static]",
                        set_memory)
      ->type_name("KIND")
      ->group(group);
  add_edit<std::string>(
      app, edits, "--overrun",
      "When an op asks for more than was measured: stop, or take it from the reserve [stop]",
      set_overrun)
      ->type_name("WHAT")
      ->group(group);
  add_edit<std::string>(app, edits, "--reserve",
                        "Part of the budget kept for --overrun reserve [0]",
                        [](train::TrainOptions& o, const std::string& t) {
                          o.memory.reserve_bytes = parse_amount(t, "--reserve");
                        })
      ->type_name("BYTES")
      ->group(group);
  add_disk_options(app, edits);
}

void add_file_options(CLI::App& app, Edits<train::TrainOptions>& edits) {
  add_path(app, edits, "--save", "Checkpoint to write at the end and when stopped",
           &train::TrainOptions::save);
  add_edit<std::int64_t>(app, edits, "--save-every", "And after every N steps",
                         [](train::TrainOptions& o, std::int64_t n) { o.save_every = n; })
      ->check(in_whole_range(1, kLargestWhole))
      ->type_name("N")
      ->group("Files");
  add_measurement_options(app, edits);
  add_path(app, edits, "--trace", "Chrome/Perfetto trace of the last step",
           &train::TrainOptions::trace);
  add_path(app, edits, "--plan-out", "The plan", &train::TrainOptions::plan_out);
  add_path(app, edits, "--graph-out", "The measured graph", &train::TrainOptions::graph_out);
  add_path(app, edits, "--dump-gradients", "Gradients of the last step (safetensors)",
           &train::TrainOptions::gradients_out);
}

/// A resumed run may leave the reserve of its checkpoint; a reserve that is typed must be used.
void require_used_reserve(const TrainArguments& arguments, const train::TrainOptions& options) {
  train::TrainOptions given;
  apply(arguments.edits, given);
  if (given.memory.reserve_bytes == 0 || options.memory.overrun == Overrun::reserve) return;
  throw InputError("--reserve needs --overrun reserve.");
}

train::TrainOptions options_from(const TrainArguments& arguments) {
  train::TrainOptions options =
      arguments.resume.empty() ? train::TrainOptions{} : train::resumed_options(arguments.resume);
  apply_recipe(arguments.recipe, options.recipe);
  apply(arguments.planning, options.memory.planning);
  apply(arguments.edits, options);
  apply(arguments.host, options.memory);
  if (options.recipe.model.empty()) {
    throw InputError(
        "which model? Give --model (`lowtide models` lists them), or --resume a checkpoint.");
  }
  if (options.memory.may_move() && options.memory.memory == Memory::pool) {
    throw InputError("--disk and --host-budget need --memory static: the pool moves no values.");
  }
  if (options.save_every > 0 && options.save.empty()) {
    throw InputError("--save-every needs --save FILE.");
  }
  if (options.memory.overrun == Overrun::reserve && options.memory.reserve_bytes == 0) {
    throw InputError("--overrun reserve needs --reserve BYTES.");
  }
  require_used_reserve(arguments, options);
  require_used_places(options.memory);
  return options;
}

int exit_code(const train::TrainResult& result) {
  if (!result.save_error.empty()) return kFailed;
  return result.stopped ? kStopped : kSuccess;
}

/// Null where nothing is to listen. The address is told without progress too, as it is asked for.
std::unique_ptr<LiveTraining> live_page(const TrainArguments& arguments, const std::string& model) {
  if (!arguments.live && arguments.port) throw InputError("--port needs --live.");
  if (!arguments.live) return nullptr;
  auto page = std::make_unique<LiveTraining>(arguments.port.value_or(0), model);
  Progress(/*quiet=*/false).say("live: " + page->url());
  return page;
}

int train_model(const TrainArguments& arguments) {
  const train::TrainOptions options = options_from(arguments);
  const auto page = live_page(arguments, options.recipe.model);
  Progress progress(arguments.quiet);
  const train::TrainListener lines = step_lines(progress);
  const train::TrainResult result = train::train(options, page ? page->with_page(lines) : lines);
  if (arguments.json) {
    print_json(to_json(result));
  } else {
    print(describe(result));
  }
  return exit_code(result);
}

}  // namespace

Action define_train(CLI::App& app) {
  auto arguments = std::make_shared<TrainArguments>();
  add_recipe_options(app, arguments->recipe, PartsOption::may_be_automatic);
  add_run_options(app, arguments->edits);
  add_memory_options(app, arguments->edits);
  add_host_options(app, arguments->host);
  add_planning_options(app, arguments->planning);
  add_file_options(app, arguments->edits);
  app.add_option("--resume", arguments->resume, "Continue from a checkpoint, with its options")
      ->type_name("FILE")
      ->group("Files");
  auto& edits = arguments->edits;
  app.add_flag_callback(
      "--check", [&edits] { edits.push_back([](train::TrainOptions& o) { o.check = true; }); },
      "Run keep-all as well and compare losses, gradients, parameters, buffers and the "
      "generator bit for bit");
  app.add_flag("--live", arguments->live,
               "Show the training while it runs, on a page for browsers of this machine")
      ->group("Page");
  app.add_option("--port", arguments->port, "Of that page [a free one]")
      ->check(in_whole_range(0, std::numeric_limits<std::uint16_t>::max()))
      ->type_name("PORT")
      ->group("Page");
  add_quiet_flag(app, arguments->quiet);
  add_json_flag(app, arguments->json);
  add_help(
      app,
      "Measures the ops of the model (once per device; kept in ~/.cache/lowtide), plans within "
      "the\n"
      "budget, allocates one block of memory, and trains in it. The budget counts parameters,\n"
      "gradients, optimizer state, the batch, activations, workspaces and fragmentation.\n"
      "Recomputation changes no bit of the result. A resumed run takes everything from its\n"
      "checkpoint, saves to the same file, and continues bit for bit; --steps N extends it, and\n"
      "--budget, --strategy and the like may change. Ctrl-C saves after the step if --save was "
      "given.",
      "  lowtide train --model resnet50 --batch 32 --budget 2GiB --steps 50\n"
      "  lowtide train --model gpt --layers 12 --width 512 --text FILE --budget 60% --steps 200 "
      "--save run.ckpt\n"
      "  lowtide train --model gpt --budget 40% --disk /tmp --disk-budget 8GiB --host-budget 1GiB\n"
      "  lowtide train --resume run.ckpt --steps 400\n"
      "  lowtide train --model resnet50 --steps 1000 --live\n"
      "  lowtide train --model mlp --data mnist:FOLDER --budget 80% --check\n");
  return [arguments] { return train_model(*arguments); };
}

}  // namespace lowtide::cli
