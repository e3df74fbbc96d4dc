#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "strategy/strategy.h"
#include "train/options.h"

namespace lowtide::cli {

/// Changes that the command line makes to options, in its order. They are applied after parsing,
/// so that a resumed run starts from its checkpoint's options rather than from the defaults.
using Edits = std::vector<std::function<void(train::TrainOptions&)>>;

/// An option whose value `apply` (a function of TrainOptions& and T) stores.
template <typename T, typename Apply>
CLI::Option* add_edit(CLI::App& app, Edits& edits, const std::string& name, const std::string& help,
                      Apply apply) {
  return app.add_option_function<T>(
      name,
      [&edits, apply](const T& value) {
        edits.push_back([apply, value](train::TrainOptions& options) { apply(options, value); });
      },
      help);
}

inline constexpr double kLargest = 1e12;  ///< of any number on the command line

/// A check without the noise in --help that CLI11's own description of a range makes.
CLI::Validator in_range(double low, double high);
/// From 0 to 2^64 - 1; CLI11 alone would take -1 as the largest.
CLI::Validator whole_number();

/// --model and its sizes, --optimizer and its numbers.
void add_recipe_options(CLI::App& app, Edits& edits);
/// --strategy, -O and --time-limit.
void add_planning_options(CLI::App& app, Edits& edits);
/// --json: one document on standard output. Every command has it.
void add_json_flag(CLI::App& app, bool& json);

/// Reads an amount of bytes that is no share; `what` names it in errors.
Bytes parse_amount(std::string_view text, std::string_view what);

/// What stands at the end of --help: how the command works, examples, exit codes.
void add_help(CLI::App& app, const std::string& explanation, const std::string& examples);

}  // namespace lowtide::cli
