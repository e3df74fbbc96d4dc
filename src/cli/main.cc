#include <algorithm>
#include <exception>
#include <string_view>

#include "base/error.h"
#include "cli/command.h"
#include "cli/failure.h"
#include "cli/parse.h"
#include "cli/signals.h"

namespace lowtide::cli {

#ifndef LOWTIDE_RUNTIME
namespace {

/// In place of a command that runs ops.
Action refuse_without_runtime(CLI::App& app) {
  app.allow_extras();
  return []() -> int {
    throw InputError(
        "this lowtide was built without LibTorch: it plans, and cannot run ops, measure "
        "or look for devices. Build it "
        "with -DLOWTIDE_RUNTIME=ON.");
  };
}

}  // namespace

Action define_train(CLI::App& app) { return refuse_without_runtime(app); }
Action define_run(CLI::App& app) { return refuse_without_runtime(app); }
Action define_profile(CLI::App& app) { return refuse_without_runtime(app); }
Action define_devices(CLI::App& app) { return refuse_without_runtime(app); }
Action define_max_batch(CLI::App& app) { return refuse_without_runtime(app); }
Action define_max_length(CLI::App& app) { return refuse_without_runtime(app); }
Action define_tune(CLI::App& app) { return refuse_without_runtime(app); }
#endif

namespace {

constexpr Command kCommands[] = {
    {"train", "Train a model within a budget of bytes", define_train},
    {"run", "Compute the forward pass of a model within a budget of bytes", define_run},
    {"graph", "Write the training step of a model as a graph", define_graph},
    {"estimate", "Tell the memory of a training step before it runs", define_estimate},
    {"parallel", "Place a model on a cluster of devices", define_parallel},
    {"max-batch", "Find the largest batch that trains within a budget", define_max_batch},
    {"max-length", "Find the longest sequences that train within a budget", define_max_length},
    {"tune", "Rank the ways to train a model within a budget", define_tune},
    {"profile", "Measure the ops of a graph on this machine", define_profile},
    {"plan", "Decide which values to keep and which to recompute", define_plan},
    {"verify", "Check a plan against its graph", define_verify},
    {"certify", "Check the proof of a plan's lower bound", define_certify},
    {"compare", "Compare strategies over several budgets", define_compare},
    {"frontier", "Show the cost of every budget, down to the smallest", define_frontier},
    {"order", "Show the peak memory that another order of the ops saves", define_order},
    {"layout", "Give buffers with known lives the lowest offsets", define_layout},
    {"strategies", "List the planning strategies", define_strategies},
    {"models", "List the models", define_models},
    {"devices", "List the devices: those here, and those that estimates know", define_devices},
    {"completions", "Print a script by which a shell completes commands and options",
     define_completions}};

/// Known before parsing, so that a parsing error is reported in the wanted form too.
bool wants_json(int argc, char** argv) {
  return std::any_of(argv, argv + argc, [](std::string_view a) { return a == "--json"; });
}

}  // namespace

int run(int argc, char** argv) {
  install_stop_handlers();
  try {
    return parse_and_run(kCommands, argc, argv);
  } catch (...) {
    return report_failure(std::current_exception(), wants_json(argc, argv));
  }
}

}  // namespace lowtide::cli

int main(int argc, char** argv) { return lowtide::cli::run(argc, argv); }
