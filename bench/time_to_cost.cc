// How long the search takes to reach the cost of the final plan of Checkmate's integer program,
// next to the program's seconds: per case, and the geometric mean of the ratios. The program's
// figures are from bench/peers/checkmate.csv, measured on a contended machine with our own code.
// The search restarts with twice the work until it reaches the cost; all restarts count. --help
// lists the options.

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "bench_main.h"
#include "csv.h"
#include "graph/io.h"
#include "plan/lower.h"
#include "plan/replay.h"
#include "strategy/strategy.h"

namespace lowtide::bench {
namespace {

namespace fs = std::filesystem;

struct Arguments {
  std::string folder = LOWTIDE_SOURCE_DIR "/data/graphs";
  std::string peers = LOWTIDE_SOURCE_DIR "/bench/peers/checkmate.csv";
  std::string peer = "milp_tight";
  double at_least = 6;
};

struct Case {
  std::string graph;
  Bytes budget = 0;
  double overhead = 0;
  double seconds = 0;
};

/// Rows: graph, frac, budget_bytes, peer, overhead, bound, seconds, status. Rows without a plan are
/// left out.
std::vector<Case> read_cases(const Arguments& arguments) {
  std::ifstream file(arguments.peers);
  std::vector<Case> cases;
  for (std::string line; std::getline(file, line);) {
    const std::vector<std::string> cells = split(line);
    if (cells.size() < 7 || cells[3] != arguments.peer || cells[4].empty()) continue;
    const Case found{cells[0], std::stoll(cells[2]), std::stod(cells[4]), std::stod(cells[6])};
    if (found.seconds > arguments.at_least) cases.push_back(found);
  }
  return cases;
}

/// Seconds until a plan costs at most `cost`; nothing when the most work does not reach it.
std::optional<double> seconds_to(const Graph& graph, Bytes budget, double cost) {
  constexpr double kMostMoves = 20'000;
  const strategy::Strategy& search = strategy::find_strategy("search");
  Control control;
  for (double moves = 1; moves < kMostMoves; moves *= 2) {
    strategy::StrategyOptions options = strategy::default_options(search);
    options["order"] = 0;
    options["prove"] = 0;
    options["bound"] *= moves / options["moves"];
    options["moves"] = moves;
    const strategy::Decision decision = search.decide({graph, budget, options, control});
    const bool is_there =
        !decision.executions.empty() && lower(graph, decision.executions).cost <= cost;
    if (is_there) return control.elapsed_seconds();
  }
  return std::nullopt;
}

void define(CLI::App& app, Arguments& arguments) {
  app.add_option("--folder", arguments.folder, "Folder of graphs [data/graphs]");
  app.add_option("--peers", arguments.peers, "CSV file of the program's figures");
  app.add_option("--peer", arguments.peer, "Which of its rows [milp_tight]");
  app.add_option("--at-least", arguments.at_least, "Only where it took more seconds [6]");
}

void run(const Arguments& arguments) {
  constexpr double kPrinted = 1e-6;  // digits of the peer's overhead
  fmt::print("| graph | budget | overhead of {0} % | its seconds | ours | ratio |\n"
             "| --- | --- | --- | --- | --- | --- |\n", arguments.peer);
  double logs = 0;
  int count = 0;
  for (const Case& c : read_cases(arguments)) {
    const Graph graph = read_graph(fs::path(arguments.folder) / (c.graph + ".json"));
    const KeepAll reference = keep_all_reference(graph);
    const double share = static_cast<double>(c.budget) / static_cast<double>(reference.peak_bytes);
    const auto ours = seconds_to(graph, c.budget, reference.cost * (1 + c.overhead + kPrinted));
    const double ratio = ours ? c.seconds / *ours : 0;
    fmt::print("| {} | {:.3f} | {:.4f} | {:.2f} | {} | {:.0f} |\n", c.graph, share,
               100 * c.overhead, c.seconds, ours ? fmt::format("{:.4f}", *ours) : "never", ratio);
    std::fflush(stdout);
    logs += ours ? std::log(ratio) : 0;
    count += ours.has_value();
  }
  fmt::print("\nGeometric mean of {} ratios: {:.0f}\n", count, std::exp(logs / std::max(1, count)));
}

}  // namespace
}  // namespace lowtide::bench

int main(int argc, char** argv) {
  return bench_main(argc, argv, "time_to_cost",
                    "Seconds of search to the cost of Checkmate's integer program",
                    lowtide::bench::define, lowtide::bench::run);
}
