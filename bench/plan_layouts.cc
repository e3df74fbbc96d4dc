// How close arenas come to the most bytes alive: plans of graphs at shares of keep-all's peak, as
// the search makes them before addresses are known, packed as low as possible. That is harder than
// the planner's own task, a packing within the budget. --planned shows the planner's result: the
// arena of its plan within each share, and the most bytes alive. Prints a table. --help lists the
// options.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <filesystem>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "base/file.h"
#include "bench_main.h"
#include "graph/io.h"
#include "layout/plan_buffers.h"
#include "packing/csv.h"
#include "packing/solve.h"
#include "plan/in_place.h"
#include "plan/lower.h"
#include "plan/replay.h"
#include "planner/planner.h"

namespace lowtide::bench {
namespace {

struct Arguments {
  std::vector<std::string> graphs;
  std::vector<int> percents{100, 70, 50, 40, 35};
  double seconds = 4;
  double work = 1;
  bool planned = false;
  std::string folder;
};

void define(CLI::App& app, Arguments& arguments) {
  app.add_option("graphs", arguments.graphs, "Files of graphs")->required();
  app.add_option("--percents", arguments.percents,
                 "Of keep-all's peak; 100 keeps all [100 70 50 40 35]");
  app.add_option("--seconds", arguments.seconds, "For each plan [4]");
  app.add_option("--work", arguments.work, "Times what pack() may spend [1]");
  app.add_flag("--planned", arguments.planned,
               "Plan within each share, arena and all, by the seconds' counted work");
  app.add_option("--write", arguments.folder,
                 "Folder to write the buffers of every plan to, as build/bench/layouts reads them");
}

/// Nothing if the search finds no plan.
std::vector<OpId> executions_of(const Graph& graph, int percent, double seconds) {
  if (percent >= 100) {
    std::vector<OpId> all(static_cast<std::size_t>(graph.num_ops()));
    std::iota(all.begin(), all.end(), 0);
    return all;
  }
  Control control(seconds);
  const strategy::Strategy& search = strategy::find_strategy("search");
  const Bytes budget = keep_all_reference(graph).peak_bytes / 100 * percent;
  return search.decide({graph, budget, strategy::default_options(search), control, {}}).executions;
}

/// The buffers with sizes in whole alignments and no offsets.
std::string csv_of(const std::vector<packing::Buffer>& buffers, Bytes alignment) {
  packing::BufferTable table{{}, buffers};
  for (packing::Buffer& buffer : table.buffers) {
    table.ids.push_back(std::to_string(table.ids.size()));
    buffer.bytes = align_up(buffer.bytes, alignment);
  }
  return packing::to_csv(table, {std::vector<Bytes>(buffers.size(), -1), 0});
}

/// The arena above the residents: its height, and the most bytes alive at one time.
struct Row {
  std::string graph;
  int percent;
  std::size_t buffers;
  Bytes height, bound;
  double seconds;
};

double percent_above(const Row& row) {
  const Bytes bound = std::max<Bytes>(row.bound, 1);
  return 100 * static_cast<double>(row.height - row.bound) / static_cast<double>(bound);
}

void print(const Row& row) {
  fmt::print("| {} | {} | {} | {} | {} | {:.3f} | {:.2f} |\n", row.graph, row.percent, row.buffers,
             row.height, row.bound, percent_above(row), row.seconds);
  std::fflush(stdout);
}

/// Packed as low as possible; nothing if the search finds no plan.
std::optional<Row> packed(const Graph& graph, const std::string& name, int percent,
                          const Arguments& arguments) {
  const auto executions = executions_of(graph, percent, arguments.seconds);
  if (executions.empty()) return std::nullopt;
  const Plan plan = with_in_place(graph, lower(graph, executions));
  const std::vector<packing::Buffer> buffers = layout::buffers_of(graph, plan).buffers;
  const packing::PackingGoal goal{.alignment = graph.executable() ? graph.alignment() : 1,
                                  .work = static_cast<std::int64_t>(
                                      arguments.work * static_cast<double>(packing::kPackingWork))};
  if (!arguments.folder.empty()) {
    write_file(fmt::format("{}/{}-{}.csv", arguments.folder, name, percent),
               csv_of(buffers, goal.alignment));
  }
  const Control clock;
  const packing::SolvedPacking solved = packing::solve_packing(buffers, goal, clock);
  return Row{name, percent, buffers.size(), solved.packing.height, solved.lower_bound,
             clock.elapsed_seconds()};
}

/// The planner's plan within the share; nothing if it finds none.
std::optional<Row> planned(const Graph& graph, const std::string& name, int percent,
                           const Arguments& arguments) {
  Control control(arguments.seconds);
  const Bytes budget = keep_all_reference(graph).peak_bytes / 100 * percent;
  const planner::Planned result =
      planner::plan_within(graph, strategy::find_strategy("search"), budget, {}, control);
  if (!result.plan) return std::nullopt;
  const Plan& plan = *result.plan;
  return Row{name,
             percent,
             layout::buffers_of(graph, plan).buffers.size(),
             plan.layout->arena_bytes - graph.resident_bytes(),
             plan.peak_bytes - graph.resident_bytes(),
             result.seconds};
}

void run(const Arguments& arguments) {
  fmt::print("| graph | % of keep-all | buffers | height | bytes alive | above % | s |\n"
             "| --- | --- | --- | --- | --- | --- | --- |\n");
  int plans = 0, lowest = 0, close = 0;
  for (const std::string& file : arguments.graphs) {
    const Graph graph = read_graph(file);
    const std::string name = std::filesystem::path(file).stem().string();
    for (const int percent : arguments.percents) {
      const auto row = (arguments.planned ? planned : packed)(graph, name, percent, arguments);
      if (!row) continue;
      print(*row);
      ++plans;
      lowest += row->height <= row->bound;
      close += percent_above(*row) <= 0.5;
    }
  }
  fmt::print("\nOf {} plans {} take no more than the most bytes alive, {} at most 0.5 % more.\n",
             plans, lowest, close);
}

}  // namespace
}  // namespace lowtide::bench

int main(int argc, char** argv) {
  return bench_main(argc, argv, "plan_layouts", "How close arenas come to the most bytes alive",
                    lowtide::bench::define, lowtide::bench::run);
}
