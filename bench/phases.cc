// What each phase of the default search is worth: plans of graphs within budgets, by all phases and
// without one at a time, with the same counted work. --help lists the options.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "bench_main.h"
#include "graph/io.h"
#include "plan/replay.h"
#include "planner/planner.h"

namespace lowtide::bench {
namespace {

struct Arguments {
  std::vector<std::string> graphs;
  std::vector<double> budgets{0.35, 0.5, 0.7};
  double seconds = 5;
};

void define(CLI::App& app, Arguments& arguments) {
  app.add_option("graphs", arguments.graphs, "Files of graphs")->required();
  app.add_option("--budgets", arguments.budgets, "Shares of the keep-all peak [0.35,0.5,0.7]")
      ->delimiter(',');
  app.add_option("--seconds", arguments.seconds, "Counted work of each plan [5]");
}

struct Phase {
  const char* name;
  strategy::GivenOptions without;
};

const Phase kPhases[] = {{"all phases", {}},
                         {"no bound", {{"bound", 0}}},
                         {"no starts", {{"starts", "off"}}},
                         {"no annealing", {{"moves", 0}}},
                         {"no proof", {{"prove", 0}}},
                         {"no moments", {{"moments", "off"}}},
                         {"no order", {{"order", 0}}},
                         {"no reordering", {{"reorder", "off"}}},
                         {"no restarts", {{"restarts", "off"}}},
                         {"no spare room", {{"spare-room", "off"}}}};

/// Percent above keep-all: of the plan, and of its lower bound; and counted seconds.
std::string row(const Graph& graph, Bytes budget, const Phase& phase, double seconds) {
  Control control = Control::by_work(seconds);
  const planner::Planned planned =
      planner::plan_within(graph, strategy::default_strategy(), budget, phase.without, control);
  if (!planned.plan) return fmt::format("{} | | | {:.1f}", phase.name, control.used_seconds());
  return fmt::format("{} | {:.3f} | {:.3f} | {:.1f}", phase.name, 100 * planned.overhead(),
                     100 * planned.least_overhead().value_or(0), control.used_seconds());
}

void run(const Arguments& arguments) {
  fmt::print("| graph | budget | phases | overhead | bound | counted s |\n"
             "| --- | ---: | --- | ---: | ---: | ---: |\n");
  for (const std::string& file : arguments.graphs) {
    const Graph graph = read_graph(file);
    const auto peak = static_cast<double>(keep_all_reference(graph).peak_bytes);
    for (const double share : arguments.budgets) {
      for (const Phase& phase : kPhases) {
        fmt::print("| {} | {} | {} |\n", std::filesystem::path(file).stem().string(), share,
                   row(graph, static_cast<Bytes>(share * peak), phase, arguments.seconds));
        std::fflush(stdout);
      }
    }
  }
}

}  // namespace
}  // namespace lowtide::bench

int main(int argc, char** argv) {
  return bench_main(argc, argv, "phases", "What each phase of the default search is worth",
                    lowtide::bench::define, lowtide::bench::run);
}
