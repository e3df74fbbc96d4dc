// How good plans are: overhead, proven bound, gap and seconds of a strategy on the graphs of a
// folder within several budgets, next to the best figure of bench/peers. Prints a table. --help
// lists the options.

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "bench_main.h"
#include "csv.h"
#include "graph/io.h"
#include "plan/lower.h"
#include "plan/replay.h"
#include "planner/planner.h"

namespace lowtide::bench {
namespace {

namespace fs = std::filesystem;

struct Arguments {
  std::string strategy = "search";
  double seconds = 10;
  std::vector<std::string> graphs{"torch-gpt",         "torch-resnet50",     "torch-unet",
                                  "torch-densenet121", "checkmate-resnet50", "checkmate-mobilenet",
                                  "layered-250",       "layered-500"};
  std::vector<double> budgets{0.8, 0.6, 0.5, 0.4, 0.3};
  bool peak_only = false;
  bool peer_cases = false;
  strategy::GivenOptions options;
  std::string folder = LOWTIDE_SOURCE_DIR "/data/graphs";
  std::vector<std::string> peers{LOWTIDE_SOURCE_DIR "/bench/peers/checkmate.csv",
                                 LOWTIDE_SOURCE_DIR "/bench/peers/prototype.csv"};
};

void set(strategy::GivenOptions& options, const std::vector<std::string>& given) {
  for (const std::string& one : given) {
    const std::size_t at = one.find('=');
    if (at == std::string::npos) throw InputError(fmt::format("\"{}\" is not NAME=VALUE", one));
    options.insert_or_assign(one.substr(0, at), one.substr(at + 1));
  }
}

void define(CLI::App& app, Arguments& arguments) {
  app.add_option("--strategy", arguments.strategy, "Strategy [search]");
  app.add_option("--seconds", arguments.seconds, "Time limit of each plan [10]");
  app.add_option("--graphs", arguments.graphs, "Names of graphs in the folder")->delimiter(',');
  app.add_option("--budgets", arguments.budgets,
                 "Shares of the keep-all peak; where a peer has a budget close to one, the peer's")
      ->delimiter(',');
  app.add_flag("--peer-cases", arguments.peer_cases,
               "Instead: every budget of those graphs that a peer has a figure for");
  app.add_flag("--peak-only", arguments.peak_only,
               "The peak must be within the budget, not the arena: so peers are measured");
  app.add_option_function<std::vector<std::string>>(
         "--options", [&](const std::vector<std::string>& given) { set(arguments.options, given); },
         "Options of the strategy, \"moves=1000,seed=2\"")
      ->delimiter(',');
  app.add_option("--folder", arguments.folder, "Folder of graphs [data/graphs]");
  app.add_option("--peers", arguments.peers, "CSV files of peers' figures")->delimiter(',');
}

/// The least overhead of any peer per graph and budget in bytes.
using Peers = std::map<std::pair<std::string, Bytes>, std::pair<double, std::string>>;

void read_peers(const fs::path& path, Peers& peers) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  const std::vector<std::string> header = split(line);
  const auto column = [&](const char* name) {
    return static_cast<std::size_t>(std::ranges::find(header, name) - header.begin());
  };
  const std::size_t overhead = column("overhead");
  while (std::getline(file, line)) {
    const std::vector<std::string> cells = split(line);
    if (cells.size() <= overhead || cells[overhead].empty()) continue;
    const std::pair key{cells[column("graph")], std::stoll(cells[column("budget_bytes")])};
    const std::pair found{std::stod(cells[overhead]), cells[column("peer")]};
    const auto [at, is_new] = peers.emplace(key, found);
    if (!is_new) at->second = std::min(at->second, found);
  }
}

struct Case {
  Bytes budget;
  std::optional<double> overhead;  ///< the least of all peers
  std::string peer;
};

Case case_of(const Peers::value_type& found) {
  return {found.first.second, found.second.first, found.second.second};
}

/// A share of the keep-all peak, or the budget of a peer that is close to it.
Case case_of(const Peers& peers, const std::string& graph, Bytes peak, double share) {
  const auto budget = static_cast<Bytes>(share * static_cast<double>(peak));
  const Bytes close = peak / 50;
  const auto at = peers.lower_bound({graph, budget - close});
  const bool is_close =
      at != peers.end() && at->first.first == graph && at->first.second <= budget + close;
  return is_close ? case_of(*at) : Case{budget, std::nullopt, ""};
}

std::vector<Case> cases_of(const Peers& peers, const std::string& graph, Bytes peak,
                           const Arguments& arguments) {
  std::vector<Case> cases;
  if (arguments.peer_cases) {
    for (const auto& found : peers) {
      if (found.first.first == graph) cases.push_back(case_of(found));
    }
  } else {
    for (double share : arguments.budgets) cases.push_back(case_of(peers, graph, peak, share));
  }
  return cases;
}

struct Result {
  strategy::Outcome outcome;
  std::optional<double> cost, bound;
};

Result planned_with_addresses(const Graph& graph, Bytes budget, const Arguments& arguments) {
  Control control(arguments.seconds);
  const planner::Planned planned = planner::plan_within(
      graph, strategy::find_strategy(arguments.strategy), budget, arguments.options, control);
  if (!planned.plan) return {planned.outcome, std::nullopt, std::nullopt};
  return {planned.outcome, planned.plan->cost, planned.plan->lower_bound};
}

Result planned_within_peak(const Graph& graph, Bytes budget, const Arguments& arguments) {
  const strategy::Strategy& strategy = strategy::find_strategy(arguments.strategy);
  Control control(arguments.seconds, [](const std::string& m) { fmt::print(stderr, "{}\n", m); });
  const strategy::Decision decision = strategy.decide(
      {graph, budget, strategy::complete_options(strategy, arguments.options), control});
  if (decision.executions.empty()) return {decision.outcome, std::nullopt, std::nullopt};
  return {decision.outcome, lower(graph, decision.executions).cost, decision.lower_bound};
}

/// Returns whether the plan costs more than the best peer's, or is missing.
bool run_case(const Graph& graph, const std::string& name, const Case& wanted,
              const Arguments& arguments) {
  constexpr double kSame = 1e-5;
  const KeepAll reference = keep_all_reference(graph);
  const Control clock;
  const Result result = arguments.peak_only
                            ? planned_within_peak(graph, wanted.budget, arguments)
                            : planned_with_addresses(graph, wanted.budget, arguments);
  const double seconds = clock.elapsed_seconds();
  const auto above = [](std::optional<double> cost, std::optional<double> least) {
    return cost && least ? fmt::format("{:.3f}", 100 * (*cost / *least - 1)) : std::string("-");
  };
  const double share =
      static_cast<double>(wanted.budget) / static_cast<double>(reference.peak_bytes);
  fmt::print("| {} | {:.3g} | {} | {} | {} | {} | {:.1f} | {} | {} |\n", name, share,
             lowtide::strategy::name(result.outcome), above(result.cost, reference.cost),
             above(result.bound, reference.cost), above(result.cost, result.bound), seconds,
             wanted.overhead ? fmt::format("{:.3f}", 100 * *wanted.overhead) : "", wanted.peer);
  std::fflush(stdout);
  return wanted.overhead &&
         (!result.cost || *result.cost > reference.cost * (1 + *wanted.overhead + kSame));
}

void run(const Arguments& arguments) {
  Peers peers;
  for (const std::string& path : arguments.peers) read_peers(path, peers);
  fmt::print("{}, {} s\n\n", arguments.strategy, arguments.seconds);
  fmt::print("| graph | budget | outcome | overhead % | bound % | gap % | s | best peer % | "
             "peer |\n"
             "| --- | --- | --- | --- | --- | --- | --- | --- | --- |\n");
  int compared = 0, costlier = 0;
  for (const std::string& name : arguments.graphs) {
    const Graph graph = read_graph(fs::path(arguments.folder) / (name + ".json"));
    const Bytes peak = keep_all_reference(graph).peak_bytes;
    for (const Case& wanted : cases_of(peers, name, peak, arguments)) {
      compared += wanted.overhead.has_value();
      costlier += run_case(graph, name, wanted, arguments);
    }
  }
  fmt::print("\nDearer than the best peer, or without a plan: {} of {} that a peer plans.\n",
             costlier, compared);
}

}  // namespace
}  // namespace lowtide::bench

int main(int argc, char** argv) {
  return bench_main(argc, argv, "planners", "How good a strategy's plans are, beside its peers'",
                    lowtide::bench::define, lowtide::bench::run);
}
