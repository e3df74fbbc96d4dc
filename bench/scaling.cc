// How planning scales: makes training graphs of any size, and plans one from file to file. Each
// plan runs in a process of its own, so that its peak memory can be measured. scaling.py runs it
// over sizes.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "base/process_memory.h"
#include "graph/io.h"
#include "plan/io.h"
#include "plan/replay.h"
#include "planner/planner.h"
#include "remat/stage_graph.h"
#include "repeated_graph.h"
#include "step_graph.h"

namespace lowtide::bench {
namespace {

namespace fs = std::filesystem;

struct Arguments {
  std::string graph = "step";
  int ops = 1000;
  std::string file;
  double budget = 0.6;
  double seconds = 20;
  bool verbose = false;
};

/// A graph of about this many ops: synthetic, or a graph of data/graphs repeated.
Graph made(const Arguments& arguments) {
  if (arguments.graph == "step") return StepGraph(arguments.ops).make();
  const Graph once =
      read_graph(fs::path(LOWTIDE_SOURCE_DIR "/data/graphs") / (arguments.graph + ".json"));
  const double copies = std::round(static_cast<double>(arguments.ops) / once.num_ops());
  return repeated(once, std::max(1, static_cast<int>(copies)));
}

/// Seconds per part of the work; the report at the end of each step names the part.
class Clock {
 public:
  void report(const std::string& message) {
    const bool is_layout = message.find("layout") != std::string::npos;
    lap(is_layout ? "layout" : message.substr(0, message.find(' ')));
  }
  /// Assigns the time since the last call to `part`.
  void lap(const std::string& part) {
    const double now = control_.elapsed_seconds();
    seconds_[part] += now - last_;
    last_ = now;
  }
  double of(const std::string& part) const {
    const auto found = seconds_.find(part);
    return found == seconds_.end() ? 0 : found->second;
  }

 private:
  const Control control_;
  double last_ = 0;
  std::map<std::string, double> seconds_;
};

double percent(std::optional<double> share) { return share ? 100 * *share : std::nan(""); }

void plan_file(const Arguments& arguments) {
  Clock clock;
  const Graph graph = read_graph(arguments.file);
  clock.lap("load");
  {
    const remat::StageGraph stages(graph);
  }
  clock.lap("stages");
  const Bytes peak = keep_all_reference(graph).peak_bytes;
  clock.lap("reference");
  Control control;
  control = Control(arguments.seconds, [&](const std::string& message) {
    clock.report(message);
    if (arguments.verbose) fmt::print(stderr, "{:7.2f} {}\n", control.elapsed_seconds(), message);
  });
  const auto budget = static_cast<Bytes>(arguments.budget * static_cast<double>(peak));
  const planner::Planned planned =
      planner::plan_within(graph, strategy::default_strategy(), budget, {}, control);
  clock.lap("layout");
  if (planned.plan) write_plan(*planned.plan, fs::path(arguments.file + ".plan"));
  clock.lap("save");
  nlohmann::ordered_json row{{"ops", graph.num_ops()},
                             {"budget_percent", 100 * arguments.budget},
                             {"limit_seconds", arguments.seconds},
                             {"seconds", planned.seconds}};
  for (const char* part : {"load", "stages", "order", "bound", "start", "plan", "layout", "save"}) {
    row[fmt::format("{}_seconds", part)] = clock.of(part);
  }
  row["peak_bytes"] = peak_resident_set_bytes();
  row["outcome"] = strategy::name(planned.outcome);
  row["overhead_percent"] =
      percent(planned.plan ? std::optional(planned.overhead()) : std::nullopt);
  row["bound_percent"] = percent(planned.least_overhead());
  row["gap_percent"] = percent(planned.gap());
  fmt::print("{}\n", row.dump());
}

}  // namespace
}  // namespace lowtide::bench

int main(int argc, char** argv) {
  CLI::App app{"Makes training graphs of any size, and plans one from file to file"};
  app.require_subcommand(1);
  lowtide::bench::Arguments arguments;
  CLI::App* make = app.add_subcommand("make", "Writes a graph");
  make->add_option("graph", arguments.graph,
                   "\"step\" (synthetic), or one of data/graphs to repeat")
      ->required();
  make->add_option("ops", arguments.ops, "About so many ops")->required();
  make->add_option("file", arguments.file, "Where to")->required();
  CLI::App* plan = app.add_subcommand("plan", "Plans a graph; prints a JSON object of figures");
  plan->add_option("file", arguments.file, "The graph; the plan goes beside it")->required();
  plan->add_option("--budget", arguments.budget, "Share of the keep-all peak [0.6]");
  plan->add_option("--seconds", arguments.seconds, "Time limit [20]");
  plan->add_flag("--verbose", arguments.verbose, "Says how far it is");
  CLI11_PARSE(app, argc, argv);
  try {
    if (make->parsed()) lowtide::write_graph(lowtide::bench::made(arguments), arguments.file);
    if (plan->parsed()) lowtide::bench::plan_file(arguments);
  } catch (const std::exception& error) {
    fmt::print(stderr, "scaling: {}\n", error.what());
    return 1;
  }
}
