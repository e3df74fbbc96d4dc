#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>

#include "base/budget.h"
#include "base/machine_memory.h"
#include "cli/arguments.h"
#include "cli/command.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "cli/training/run_options.h"
#include "cli/training/tune_report.h"
#include "models/micro_batches.h"
#include "models/precision.h"

namespace lowtide::cli {
namespace {

constexpr double kPlanSeconds = 10;
/// Of the memory that is free, what a budget is where none is given.
constexpr double kShareOfFree = 0.9;

struct TuneArguments {
  Edits<models::StepRecipe> recipe;
  Edits<planner::PlanningOptions> planning;
  Edits<train::TrainOptions> edits;
  std::string budget;
  std::string precisions = "f32,bf16";
  std::string goal = "fastest";
  std::optional<double> step_seconds;
  bool runs = true;
  bool quiet = false;
  bool json = false;
};

std::vector<DType> precisions_of(const std::string& text) {
  std::vector<DType> precisions;
  std::istringstream words(text);
  for (std::string word; std::getline(words, word, ',');) {
    const DType precision = models::parse_precision(word);
    if (std::ranges::find(precisions, precision) == precisions.end()) {
      precisions.push_back(precision);
    }
  }
  return precisions;
}

Bytes bytes_of_budget(const TuneArguments& arguments) {
  if (!arguments.budget.empty()) return parse_amount(arguments.budget, "--budget");
  return static_cast<Bytes>(kShareOfFree * static_cast<double>(machine_memory().free));
}

int tune_model(const TuneArguments& arguments) {
  train::TrainOptions options;
  options.memory.planning.seconds = kPlanSeconds;
  apply_recipe(arguments.recipe, options.recipe);
  apply(arguments.planning, options.memory.planning);
  apply(arguments.edits, options);
  require_model(options.recipe);
  const Bytes budget = bytes_of_budget(arguments);
  options.memory.planning.budget.value = budget;
  require_used_places(options.memory);
  // A number that was given stays.
  const bool may_divide =
      options.recipe.micro_batches == models::kAutomatic || options.recipe.micro_batches == 1;
  Progress progress(arguments.quiet);
  const train::Tuning found = train::tuned(options,
                                           {.goal = train::parse_tuning_goal(arguments.goal),
                                            .step_seconds = arguments.step_seconds,
                                            .precisions = precisions_of(arguments.precisions),
                                            .micro_batches = may_divide,
                                            .disk = !options.memory.disk.empty(),
                                            .runs = arguments.runs ? 2 : 0},
                                           progress.messages());
  if (arguments.json) {
    print_json(tuning_json(found, budget));
  } else {
    print(tuning_text(found, budget));
  }
  if (found.stopped) return kStopped;
  return found.ranked.front().fits() ? kSuccess : kInfeasible;
}

}  // namespace

Action define_tune(CLI::App& app) {
  auto arguments = std::make_shared<TuneArguments>();
  add_recipe_options(app, arguments->recipe, PartsOption::may_be_automatic);
  add_data_options(app, arguments->edits);
  app.add_option("--budget", arguments->budget,
                 "Bytes (512MB, 1.5GiB) [nine tenths of what this machine has free]")
      ->type_name("BYTES")
      ->group("Memory");
  add_disk_options(app, arguments->edits);
  app.add_option("--precisions", arguments->precisions,
                 "Which to try, with commas: f32, bf16, fp16 [f32,bf16]")
      ->type_name("LIST")
      ->group("Search");
  app.add_option("--goal", arguments->goal,
                 "fastest: the shortest step; fits: the one that changes the training least "
                 "[fastest]")
      ->type_name("GOAL")
      ->group("Search");
  app.add_option("--step-seconds", arguments->step_seconds,
                 "Of those whose step takes longer, all come behind the others")
      ->check(in_range(1e-6, kLargest))
      ->type_name("SECONDS")
      ->group("Search");
  app.add_flag_callback(
         "--no-run", [arguments] { arguments->runs = false; }, "Run no step for proof")
      ->group("Search");
  add_planning_options(app, arguments->planning, kPlanSeconds);
  add_measurement_options(app, arguments->edits);
  add_quiet_flag(app, arguments->quiet);
  add_json_flag(app, arguments->json);
  add_help(app,
           "Plans a training step within the budget by every combination of precision, number of\n"
           "micro-batches and, with --disk, moves; runs the best two, and prints all in order\n"
           "with the reason. Of a precision in which one keeps every value, no other is planned.\n"
           "--time-limit is for each plan. Ctrl-C ends with the ranking so far.",
           "  lowtide tune --model gpt --batch 8 --budget 1GiB\n"
           "  lowtide tune --model vit-small --budget 1GiB --goal fits --step-seconds 5\n"
           "  lowtide tune --model resnet50 --budget 800MiB --precisions f32 --disk /tmp\n");
  return [arguments] { return tune_model(*arguments); };
}

}  // namespace lowtide::cli
