#pragma once

#include <CLI/CLI.hpp>
#include <functional>

namespace lowtide::cli {

/// The exit codes of `lowtide`; docs/reference/command-line.md and every --help list the same.
enum Exit : int {
  kSuccess = 0,
  kFailed = 1,  ///< an op or the disk failed, or a bug in lowtide itself
  kBadInput = 2,
  kInfeasible = 3,
  kStopped = 4
};

/// Runs a subcommand once its arguments are parsed.
using Action = std::function<int()>;

/// A subcommand: one file cmd_<name>.cc, one line of the table in main.cc.
struct Command {
  const char* name;
  const char* summary;
  /// Adds options, examples and help to `app`; the Action owns the variables that they write to.
  Action (*define)(CLI::App& app);
};

Action define_completions(CLI::App& app);
Action define_train(CLI::App& app);
Action define_run(CLI::App& app);
Action define_graph(CLI::App& app);
Action define_profile(CLI::App& app);
Action define_plan(CLI::App& app);
Action define_verify(CLI::App& app);
Action define_certify(CLI::App& app);
Action define_compare(CLI::App& app);
Action define_frontier(CLI::App& app);
Action define_strategies(CLI::App& app);
Action define_models(CLI::App& app);
Action define_devices(CLI::App& app);
Action define_order(CLI::App& app);
Action define_layout(CLI::App& app);
Action define_estimate(CLI::App& app);
Action define_parallel(CLI::App& app);
Action define_max_batch(CLI::App& app);
Action define_max_length(CLI::App& app);
Action define_tune(CLI::App& app);

}  // namespace lowtide::cli
