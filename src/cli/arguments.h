#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "models/step_recipe.h"
#include "planner/planning_options.h"
#include "strategy/strategy.h"

namespace lowtide::cli {

/// Changes of options by the command line, in its order. They are applied after parsing, so that a
/// resumed run starts from its checkpoint's options rather than from the defaults.
template <typename Options>
using Edits = std::vector<std::function<void(Options&)>>;

template <typename Options>
void apply(const Edits<Options>& edits, Options& options) {
  for (const auto& edit : edits) edit(options);
}

/// An option whose value is stored by `store`, a function of Options& and T.
template <typename T, typename Options, typename Store>
CLI::Option* add_edit(CLI::App& app, Edits<Options>& edits, const std::string& name,
                      const std::string& help, Store store) {
  return app.add_option_function<T>(
      name,
      [&edits, store](const T& value) {
        edits.push_back([store, value](Options& options) { store(options, value); });
      },
      help);
}

inline constexpr double kLargest = 1e12;  ///< of any number on the command line
inline constexpr std::int64_t kLargestWhole = 1'000'000'000'000;  ///< the same

/// A range check without CLI11's own long description of the range in --help.
CLI::Validator in_range(double low, double high);
/// The same for whole numbers: 1.5 and 1e3 are refused.
CLI::Validator in_whole_range(std::int64_t low, std::int64_t high);
/// From 0 to 2^64 - 1; CLI11 alone would read -1 as the largest number.
CLI::Validator whole_number();

/// Removes the spaces around a value, such as those after the commas of a list.
CLI::Validator trimmed();

/// --model and its sizes.
void add_model_options(CLI::App& app, Edits<models::StepRecipe>& edits);
/// Who says how many parts of a batch there are.
enum class PartsOption : std::uint8_t {
  given,            ///< the command line
  may_be_automatic  ///< the command, where the command line says "auto"
};
/// The same with --optimizer and its numbers, --micro-batches and --slices.
void add_recipe_options(CLI::App& app, Edits<models::StepRecipe>& edits,
                        PartsOption parts = PartsOption::given);
/// Changes `recipe` as they say. Throws InputError for a number that the optimizer does not read.
void apply_recipe(const Edits<models::StepRecipe>& edits, models::StepRecipe& recipe);
/// Throws InputError for a recipe that names no model.
void require_model(const models::StepRecipe& recipe);
/// --strategy, -O and --time-limit; the help names its default of `seconds`.
void add_planning_options(CLI::App& app, Edits<planner::PlanningOptions>& edits,
                          double seconds = planner::PlanningOptions().seconds);
/// --like: a device of cost::known_devices(), by whose data sheet times are estimated.
void add_like_option(CLI::App& app, std::string& name);
/// --quiet: no progress and no notes. Commands that take long have it.
void add_quiet_flag(CLI::App& app, bool& quiet);
/// --json: one document on standard output. Every command has it.
void add_json_flag(CLI::App& app, bool& json);

/// The end of --help: how the command works, examples, exit codes.
void add_help(CLI::App& app, const std::string& explanation, const std::string& examples);

/// The strategy of that name that plans without slower memory; the default one for an empty name.
/// Throws InputError that says so for one that moves values.
const strategy::Strategy& strategy_without_moves(const std::string& name);

/// A strategy with options of it.
struct StrategyChoice {
  std::string text;  ///< as typed
  const strategy::Strategy* strategy = nullptr;
  strategy::GivenOptions options = {};
};

/// Of "megatron:granularity=selective:layers=2". Throws InputError for options that the strategy
/// does not have, too.
StrategyChoice strategy_choice(const std::string& text);

}  // namespace lowtide::cli
