// A table of the plans that the strategies find for graphs under a limit of counted work: cost,
// peak, arena, proven bound, and a hash of the whole plan. A change that should not change plans
// must leave the table as it was. --help lists the options.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <functional>
#include <string>
#include <vector>

#include "bench_main.h"
#include "graph/io.h"
#include "plan/io.h"
#include "plan/replay.h"
#include "planner/planner.h"

namespace lowtide::bench {
namespace {

struct Arguments {
  std::vector<std::string> graphs;
  std::vector<std::string> strategies{"search", "chen-greedy", "min-cut", "dtr"};
  std::vector<double> budgets{0.4, 0.6};
  double limit = 1;
};

void define(CLI::App& app, Arguments& arguments) {
  app.add_option("graphs", arguments.graphs, "Files of graphs")->required();
  app.add_option("--strategies", arguments.strategies, "Names of strategies")->delimiter(',');
  app.add_option("--budgets", arguments.budgets, "Parts of the keep-all peak [0.4,0.6]")
      ->delimiter(',');
  app.add_option("--limit", arguments.limit, "Seconds of counted work for each plan [1]");
}

/// Hash of the plan's file without the seconds of the search.
std::size_t hash_of(Plan plan) {
  plan.seconds = 0;
  return std::hash<std::string>()(format_plan(plan));
}

void print(const planner::Planned& planned) {
  if (!planned.plan) return fmt::print("{},,,,,\n", strategy::name(planned.outcome));
  const Plan& plan = *planned.plan;
  fmt::print("{},{:.17g},{},{},{:.17g},{:016x}\n", strategy::name(planned.outcome), plan.cost,
             plan.peak_bytes, plan.layout->arena_bytes, plan.lower_bound.value_or(0),
             hash_of(plan));
  std::fflush(stdout);
}

void add_rows(const Graph& graph, const Arguments& arguments) {
  const Bytes peak = keep_all_reference(graph).peak_bytes;
  for (const std::string& strategy : arguments.strategies) {
    for (const double share : arguments.budgets) {
      Control control = Control::by_work(arguments.limit);
      const auto budget = static_cast<Bytes>(share * static_cast<double>(peak));
      fmt::print("{},{},{},", graph.name(), strategy, share);
      print(planner::plan_within(graph, strategy::find_strategy(strategy), budget, {}, control));
    }
  }
}

void run(const Arguments& arguments) {
  fmt::print("graph,strategy,budget,outcome,cost,peak_bytes,arena_bytes,bound,hash\n");
  for (const std::string& file : arguments.graphs) add_rows(read_graph(file), arguments);
}

}  // namespace
}  // namespace lowtide::bench

int main(int argc, char** argv) {
  return bench_main(argc, argv, "plan_table", "What plans the strategies find",
                    lowtide::bench::define, lowtide::bench::run);
}
