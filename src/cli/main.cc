#include <algorithm>
#include <exception>
#include <string_view>

#include "cli/command.h"
#include "cli/failure.h"
#include "cli/parse.h"
#include "cli/signals.h"

namespace lowtide::cli {
namespace {

constexpr Command kCommands[] = {
#ifdef LOWTIDE_RUNTIME
    {"train", "Train a model within a budget of bytes", define_train},
    {"profile", "Measure the ops of a graph on this machine", define_profile},
#endif
    {"graph", "Write the training step of a model as a graph", define_graph},
    {"plan", "Decide which values to keep and which to recompute", define_plan},
    {"verify", "Check a plan against its graph", define_verify},
    {"certify", "Check the proof of a plan's lower bound", define_certify},
    {"compare", "Compare strategies over several budgets", define_compare},
    {"frontier", "Show the cost of every budget, down to the smallest", define_frontier},
    {"order", "Show the peak memory that another order of the ops saves", define_order},
    {"layout", "Give buffers with known lives the lowest offsets", define_layout},
    {"strategies", "List the planning strategies", define_strategies},
    {"models", "List the models", define_models}};

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
