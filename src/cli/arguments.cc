#include "cli/arguments.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>
#include <cmath>
#include <limits>
#include <optional>
#include <sstream>
#include <utility>

#include "base/error.h"
#include "cost/device_rates.h"
#include "models/micro_batches.h"
#include "offload/ways.h"

namespace lowtide::cli {
namespace {

/// Nothing for any other text, such as "1.5", "1e3" or one out of range.
template <typename Number>
std::optional<Number> parse_whole(const std::string& text) {
  Number value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  const bool is_whole = !text.empty() && stop == end && error == std::errc();
  return is_whole ? std::optional(value) : std::nullopt;
}

void add_sizes(CLI::App& app, Edits<models::StepRecipe>& edits) {
  for (const models::SizeOption& size : models::size_options()) {
    const std::string flag = fmt::format("--{}{}", size.name, size.name == "batch" ? ",-b" : "");
    add_edit<std::int64_t>(app, edits, flag, std::string(size.help),
                           [field = size.field](models::StepRecipe& recipe, std::int64_t value) {
                             recipe.sizes.*field = value;
                           })
        ->check(in_whole_range(1, kLargestWhole))
        ->type_name("N")
        ->group("Model");
  }
  add_edit<double>(app, edits, "--dropout", "Share of activations dropped",
                   [](models::StepRecipe& recipe, double value) { recipe.sizes.dropout = value; })
      ->check(in_range(0, 1))
      ->type_name("P")
      ->group("Model");
}

void add_parts(CLI::App& app, Edits<models::StepRecipe>& edits, PartsOption parts,
               const std::string& option, std::string_view help,
               std::int64_t models::StepRecipe::* count) {
  const bool may_be_automatic = parts == PartsOption::may_be_automatic;
  add_edit<std::string>(
      app, edits, option,
      fmt::format("{}{} [1]", help, may_be_automatic ? "; auto: the fastest" : ""),
      [=](models::StepRecipe& recipe, const std::string& text) {
        recipe.*count = may_be_automatic ? models::parse_parts(option, text)
                                         : models::parse_number_of_parts(option, text);
      })
      ->type_name("N")
      ->group("Model");
}

/// The recipe of a command line, with NaN for the optimizer's numbers and the loss scale where it
/// does not give them.
models::StepRecipe as_given(const Edits<models::StepRecipe>& edits) {
  models::StepRecipe recipe;
  for (const models::RateOption& rate : models::rate_options()) {
    recipe.optimizer.*rate.field = std::numeric_limits<double>::quiet_NaN();
  }
  recipe.precision.loss_scale = std::numeric_limits<double>::quiet_NaN();
  apply(edits, recipe);
  return recipe;
}

std::string rates_read(std::string_view optimizer) {
  std::vector<std::string_view> names;
  for (const models::RateOption& rate : models::rate_options()) {
    if (models::reads(optimizer, rate)) names.push_back(rate.name);
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

void add_stored_type(CLI::App& app, Edits<models::StepRecipe>& edits, const std::string& option,
                     const std::string& help, std::string_view what,
                     DType models::Precision::* field) {
  add_edit<std::string>(app, edits, option, help,
                        [what, field](models::StepRecipe& recipe, const std::string& text) {
                          recipe.precision.*field = models::parse_stored_type(what, text);
                        })
      ->type_name("TYPE")
      ->group("Optimizer");
}

/// "segments=8"
void add_strategy_option(planner::PlanningOptions& planning, const std::string& text) {
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos || equals + 1 == text.size()) {
    throw InputError(
        fmt::format("the option {} of a strategy is not of the form NAME=VALUE; `lowtide "
                    "strategies` lists the options of each strategy.",
                    text));
  }
  planning.strategy_options.insert_or_assign(text.substr(0, equals), text.substr(equals + 1));
}

}  // namespace

CLI::Validator in_range(double low, double high) {
  return CLI::Validator(
      [low, high](const std::string& text) {
        double value = 0;
        if (!CLI::detail::lexical_cast(text, value))
          return fmt::format("\"{}\" is no number", text);
        if (value >= low && value <= high) return std::string();
        return fmt::format("{} is not between {} and {}", text, low, high);
      },
      "");
}

CLI::Validator in_whole_range(std::int64_t low, std::int64_t high) {
  return CLI::Validator(
      [low, high](const std::string& text) {
        const auto value = parse_whole<std::int64_t>(text);
        if (value && *value >= low && *value <= high) return std::string();
        return fmt::format("\"{}\" is no whole number from {} to {}", text, low, high);
      },
      "");
}

CLI::Validator trimmed() {
  return CLI::Validator(
      [](std::string& text) {
        CLI::detail::trim(text);
        return std::string();
      },
      "");
}

CLI::Validator whole_number() {
  return CLI::Validator(
      [](const std::string& text) {
        if (parse_whole<std::uint64_t>(text)) return std::string();
        return fmt::format("\"{}\" is no whole number from 0 to 2^64 - 1", text);
      },
      "");
}

void add_model_options(CLI::App& app, Edits<models::StepRecipe>& edits) {
  add_edit<std::string>(
      app, edits, "--model,-m", "Model of the zoo; `lowtide models` lists them",
      [](models::StepRecipe& recipe, const std::string& name) { recipe.model = name; })
      ->type_name("MODEL")
      ->group("Model");
  add_sizes(app, edits);
  add_edit<std::string>(app, edits, "--precision",
                        "f32, or mixed precision as torch.autocast: bf16, fp16 [f32]",
                        [](models::StepRecipe& recipe, const std::string& name) {
                          recipe.precision.compute = models::parse_precision(name);
                        })
      ->type_name("PRECISION")
      ->group("Model");
}

void add_recipe_options(CLI::App& app, Edits<models::StepRecipe>& edits, PartsOption parts) {
  add_model_options(app, edits);
  add_edit<std::string>(
      app, edits, "--optimizer", "sgd, adam or adamw [sgd]",
      [](models::StepRecipe& recipe, const std::string& name) { recipe.optimizer.name = name; })
      ->type_name("OPTIMIZER")
      ->group("Optimizer");
  for (const models::RateOption& rate : models::rate_options()) {
    add_edit<double>(app, edits, fmt::format("--{}", rate.name), std::string(rate.help),
                     [field = rate.field](models::StepRecipe& recipe, double value) {
                       recipe.optimizer.*field = value;
                     })
        ->type_name("X")
        ->group("Optimizer");
  }
  add_parts(app, edits, parts, "--micro-batches", "Parts of a batch, of which gradients add up",
            &models::StepRecipe::micro_batches);
  add_parts(app, edits, parts, "--slices", "Slices of a batch on which ops run, in turn",
            &models::StepRecipe::slices);
  add_edit<double>(
      app, edits, "--loss-scale", "Of the first step, with --precision fp16 [65536]",
      [](models::StepRecipe& recipe, double scale) { recipe.precision.loss_scale = scale; })
      ->type_name("X")
      ->group("Optimizer");
  add_stored_type(app, edits, "--gradient-type", "In which gradients are held: f32 or bf16 [f32]",
                  models::kGradientType, &models::Precision::gradient_type);
  add_stored_type(app, edits, "--state-type",
                  "In which momentum and moments are held between steps: f32 or bf16 [f32]",
                  models::kStateType, &models::Precision::state_type);
}

void apply_recipe(const Edits<models::StepRecipe>& edits, models::StepRecipe& recipe) {
  apply(edits, recipe);
  const models::StepRecipe given = as_given(edits);
  for (const models::RateOption& rate : models::rate_options()) {
    if (std::isnan(given.optimizer.*rate.field)) continue;
    if (models::reads(recipe.optimizer.name, rate)) continue;
    throw InputError(fmt::format("optimizer {} has no option \"{}\"; it reads: {}",
                                 recipe.optimizer.name, rate.name,
                                 rates_read(recipe.optimizer.name)));
  }
  if (std::isnan(given.precision.loss_scale) || recipe.precision.compute == DType::f16) return;
  throw InputError("--loss-scale needs --precision fp16: other precisions scale no loss.");
}

void require_model(const models::StepRecipe& recipe) {
  if (!recipe.model.empty()) return;
  throw InputError("which model? Give --model; `lowtide models` lists them.");
}

void add_planning_options(CLI::App& app, Edits<planner::PlanningOptions>& edits, double seconds) {
  add_edit<std::string>(
      app, edits, "--strategy,-s", "How to plan; `lowtide strategies` lists them",
      [](planner::PlanningOptions& planning, const std::string& name) { planning.strategy = name; })
      ->type_name("STRATEGY")
      ->group("Planning");
  add_edit<std::vector<std::string>>(
      app, edits, "-O", "Option of the strategy, NAME=VALUE; repeatable",
      [](planner::PlanningOptions& planning, const std::vector<std::string>& all) {
        for (const auto& text : all) add_strategy_option(planning, text);
      })
      ->allow_extra_args(false)
      ->take_all()
      ->type_name("NAME=VALUE")
      ->group("Planning");
  add_edit<double>(
      app, edits, "--time-limit",
      fmt::format("Seconds of planning at most; 0: no limit [{}]", seconds),
      [](planner::PlanningOptions& planning, double limit) { planning.seconds = limit; })
      ->check(in_range(0, kLargest))
      ->type_name("SECONDS")
      ->group("Planning");
}

void add_like_option(CLI::App& app, std::string& name) {
  std::vector<std::string> names;
  for (const cost::DeviceRates& device : cost::known_devices()) names.push_back(device.name);
  app.add_option("--like", name,
                 fmt::format("Estimate times by a device's data sheet: {} [{}]",
                             fmt::join(names, ", "), cost::default_rates().name))
      ->type_name("DEVICE");
}

void add_quiet_flag(CLI::App& app, bool& quiet) {
  app.add_flag("--quiet,-q", quiet,
               "No progress and no notes; warnings, errors and the result stay");
}

void add_json_flag(CLI::App& app, bool& json) {
  app.add_flag("--json", json, "Print one JSON document on standard output instead of a table");
}

void add_help(CLI::App& app, const std::string& explanation, const std::string& examples) {
  app.footer(
      fmt::format("{}\nExamples:\n{}\n"
                  "Exit codes: 0 success; 1 failure (an op, the disk, a fault of lowtide); 2 bad "
                  "input;\n3 nothing fits: no plan the budget, no layout the capacity; 4 stopped "
                  "by Ctrl-C, with\nwhat was reached.",
                  explanation, examples));
}

const strategy::Strategy& strategy_without_moves(const std::string& name) {
  if (!offload::always_moves(name)) return strategy::find_strategy_or_default(name);
  throw InputError(fmt::format(
      "the strategy {} moves values to slower memory, and none is given; `lowtide plan` "
      "takes its --bandwidth, and `lowtide train` a --disk.",
      name));
}

StrategyChoice strategy_choice(const std::string& text) {
  std::istringstream parts(text);
  std::string name;
  std::getline(parts, name, ':');
  if (name.empty()) {
    throw InputError(fmt::format(
        "the name of a strategy in \"{}\" is empty; write it before its options.", text));
  }
  planner::PlanningOptions planning;
  for (std::string option; std::getline(parts, option, ':');) add_strategy_option(planning, option);
  const strategy::Strategy& strategy = strategy_without_moves(name);
  static_cast<void>(strategy::complete_options(strategy, planning.strategy_options));
  return {text, &strategy, std::move(planning.strategy_options)};
}

}  // namespace lowtide::cli
