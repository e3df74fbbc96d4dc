#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/budget.h"
#include "base/error.h"
#include "cli/command.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "cli/training/largest_report.h"
#include "cli/training/run_options.h"
#include "cost/roofline.h"
#include "largest/largest_size.h"
#include "train/sized_steps.h"

namespace lowtide::cli {
namespace {

constexpr double kSearchSeconds = 120;

/// A size of a model to make as large as possible.
struct Dimension {
  const char* command;
  const char* what;
  const char* option;  ///< that `train` has for it
  std::int64_t models::ModelOptions::* field;
};
constexpr Dimension kBatch{"max-batch", "batch", "--batch", &models::ModelOptions::batch};
constexpr Dimension kLength{"max-length", "length", "--sequence", &models::ModelOptions::sequence};

struct LargestArguments {
  Edits<models::StepRecipe> recipe;
  Edits<planner::PlanningOptions> planning;
  Edits<train::TrainOptions> edits;
  std::int64_t start = 0;  ///< 0: the smallest that the model can have
  largest::Sizes sizes;    ///< but for the first
  std::string budget;
  std::string extra = "any";
  std::string like;
  bool runs = true;
  bool quiet = false;
  bool json = false;
};

train::TrainOptions options_of(const LargestArguments& arguments, const Dimension& dimension) {
  train::TrainOptions options;
  apply_recipe(arguments.recipe, options.recipe);
  apply(arguments.edits, options);
  require_model(options.recipe);
  if (options.recipe.sizes.*dimension.field != 0) {
    throw InputError(fmt::format("{} looks for the {}: leave {} out; --start and --limit bound it.",
                                 dimension.command, dimension.what, dimension.option));
  }
  if (models::find_model(options.recipe.model).defaults.*dimension.field == 0) {
    throw InputError(fmt::format("model {} has no {}: `lowtide models` lists those that have one.",
                                 options.recipe.model, dimension.option));
  }
  return options;
}

train::Recipe of_size(train::Recipe recipe, const Dimension& dimension, std::int64_t size) {
  recipe.sizes.*dimension.field = size;
  return recipe;
}

/// The smallest size, or the second where the model cannot have that one: batch normalization may
/// need two images.
std::int64_t first_possible(const largest::Sizes& sizes, const train::Recipe& recipe,
                            const Dimension& dimension) {
  try {
    static_cast<void>(train::bare_graph(of_size(recipe, dimension, sizes.smallest())));
    return sizes.first;
  } catch (const InputError&) {
    return sizes.smallest() + sizes.multiple;
  }
}

/// Throws InputError where no number is that large.
std::int64_t product(std::int64_t a, std::int64_t b) {
  if (a <= std::numeric_limits<std::int64_t>::max() / b) return a * b;
  throw InputError(
      "no batch is a multiple of --multiple and of --micro-batches times --slices: choose fewer of "
      "them.");
}

/// A batch must have its micro-batches and slices.
largest::Sizes sizes_of(const LargestArguments& arguments, const train::Recipe& recipe,
                        const Dimension& dimension) {
  largest::Sizes sizes = arguments.sizes;
  if (arguments.start > sizes.last) {
    throw InputError(fmt::format("--start must be at most --limit, which is {}, not {}.",
                                 sizes.last, arguments.start));
  }
  if (dimension.field == &models::ModelOptions::batch) {
    const std::int64_t parts = product(recipe.micro_batches, recipe.slices);
    const std::int64_t common = std::gcd(sizes.multiple, parts);
    sizes.multiple = product(sizes.multiple / common, parts);
  }
  sizes.first = arguments.start > 0 ? arguments.start : first_possible(sizes, recipe, dimension);
  return sizes;
}

std::unique_ptr<largest::Steps> steps_of(const LargestArguments& arguments,
                                         const train::TrainOptions& options,
                                         const Dimension& dimension, const largest::Sizes& sizes,
                                         const Control::Listener& listener) {
  if (arguments.like.empty()) {
    return std::make_unique<train::SizedSteps>(options, dimension.field, sizes, arguments.runs,
                                               listener);
  }
  const cost::DeviceRates& rates = cost::find_device(arguments.like);
  return std::make_unique<largest::UnmeasuredSteps>([=](std::int64_t size) {
    return cost::roofline_priced(train::bare_graph(of_size(options.recipe, dimension, size)),
                                 rates);
  });
}

int find_largest(const LargestArguments& arguments, const Dimension& dimension) {
  planner::PlanningOptions planning{.seconds = kSearchSeconds};
  apply(arguments.planning, planning);
  train::TrainOptions options = options_of(arguments, dimension);
  Progress progress(arguments.quiet);
  const largest::Question question{
      .sizes = sizes_of(arguments, options.recipe, dimension),
      .what = dimension.what,
      .budget_bytes = parse_amount(arguments.budget, "--budget"),
      .extra = largest::parse_extra_time(arguments.extra),
      .strategy = &strategy::find_strategy_or_default(planning.strategy),
      .strategy_options = planning.strategy_options,
      .seconds = planning.seconds,
      .listener = progress.messages()};
  train::complete(options.recipe);
  options.memory.planning.budget.value = question.budget_bytes;
  const auto steps = steps_of(arguments, options, dimension, question.sizes, question.listener);
  const largest::Largest found = largest::largest_size(question, *steps);
  if (arguments.json) {
    print_json(largest_json(options.recipe.model, question, found));
  } else {
    print(largest_text(options.recipe.model, question, found));
  }
  return found.stopped ? kStopped : kSuccess;
}

void add_size_options(CLI::App& app, LargestArguments& arguments) {
  const char* group = "Search";
  const auto add = [&](const char* name, std::int64_t& value, const char* help) {
    app.add_option(name, value, help)
        ->check(in_whole_range(1, kLargestWhole))
        ->type_name("N")
        ->group(group);
  };
  add("--start", arguments.start, "The smallest size to try [1, or what the model can have]");
  add("--limit", arguments.sizes.last, "The largest size to try [1048576]");
  add("--multiple", arguments.sizes.multiple, "Only sizes that are multiples of this [1]");
  app.add_option("--extra-time", arguments.extra,
                 "How much longer than one that keeps every value a step may take: 30%, forward "
                 "(one forward pass), any [any]")
      ->type_name("SHARE")
      ->group(group);
  app.add_flag_callback(
         "--no-run", [&arguments] { arguments.runs = false; }, "Run no step for proof")
      ->group(group);
}

Action define_largest(CLI::App& app, const Dimension& dimension, const std::string& example) {
  auto arguments = std::make_shared<LargestArguments>();
  add_recipe_options(app, arguments->recipe);
  add_data_options(app, arguments->edits);
  add_size_options(app, *arguments);
  app.add_option("--budget", arguments->budget, "Bytes (512MB, 1.5GiB)")
      ->required()
      ->type_name("BYTES")
      ->group("Memory");
  add_planning_options(app, arguments->planning, kSearchSeconds);
  add_measurement_options(app, arguments->edits);
  add_like_option(app, arguments->like);
  add_quiet_flag(app, arguments->quiet);
  add_json_flag(app, arguments->json);
  add_help(
      app,
      fmt::format(
          "The largest {0} of which a training step has a plan within the budget. Sizes that were\n"
          "not measured are planned with times and workspaces interpolated from two that were;\n"
          "then the largest is measured, planned and run, and the next one measured not to fit.\n"
          "With --like, nothing is measured or run. --time-limit is for all plans together.\n"
          "Ctrl-C ends the search with the best {0} so far.",
          dimension.what),
      example);
  return [arguments, dimension] { return find_largest(*arguments, dimension); };
}

}  // namespace

Action define_max_batch(CLI::App& app) {
  return define_largest(app, kBatch,
                        "  lowtide max-batch --model resnet50 --budget 2GiB\n"
                        "  lowtide max-batch --model unet --budget 4GiB --extra-time 20%\n"
                        "  lowtide max-batch --model resnet50 --like h100 --budget 80GB\n");
}

Action define_max_length(CLI::App& app) {
  return define_largest(app, kLength,
                        "  lowtide max-length --model gpt --batch 1 --budget 2GiB --multiple 64\n");
}

}  // namespace lowtide::cli
