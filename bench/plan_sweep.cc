// Whether the planner is dependable: plans of each graph within many budgets and under several
// limits of counted work. Reports plans that cost more than one for a smaller budget or under a
// smaller limit, missing plans where a smaller budget had one, and plans that leave part of the
// budget unused though they might cost less. Fails when there is such a case. --help lists the
// options.

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
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
  std::vector<double> limits{5, 30};
  int budgets = 24;
  double from = 0.27;
  double to = 0.73;
  double points = 0.1;
  double unused = 0.01;
  double moves = 1000;
};

void define(CLI::App& app, Arguments& arguments) {
  app.add_option("graphs", arguments.graphs, "Files of graphs")->required();
  app.add_option("--limits", arguments.limits, "Seconds of counted work [5,30]")->delimiter(',');
  app.add_option("--budgets", arguments.budgets, "How many budgets [24]");
  app.add_option("--from", arguments.from, "Smallest budget, of the keep-all peak [0.27]");
  app.add_option("--to", arguments.to, "Largest budget, of the keep-all peak [0.73]");
  app.add_option("--points", arguments.points, "Of keep-all's cost, in percent, allowed [0.1]");
  app.add_option("--unused", arguments.unused, "Of the budget, allowed to be unused [0.01]");
  app.add_option("--moves", arguments.moves, "Thousands of moves of a search [1000]");
}

/// One plan of a sweep.
struct Point {
  double share = 0;  ///< of keep-all's peak
  double limit = 0;
  planner::Planned planned;
  double used_seconds = 0;

  double percent() const { return 100 * planned.overhead(); }
  double unused() const {
    return 1 - static_cast<double>(planned.plan->layout->arena_bytes) /
                   static_cast<double>(planned.budget_bytes);
  }
};

Point point(const Graph& graph, double share, double limit, const Arguments& arguments) {
  const Bytes peak = keep_all_reference(graph).peak_bytes;
  const auto budget = static_cast<Bytes>(share * static_cast<double>(peak));
  Control control = Control::by_work(limit);
  Point result{share, limit, {}, 0};
  result.planned = planner::plan_within(graph, strategy::default_strategy(), budget,
                                        {{"moves", arguments.moves}}, control);
  result.used_seconds = control.used_seconds();
  return result;
}

void print(const Point& point) {
  const planner::Planned& planned = point.planned;
  fmt::print("| {} | {:.3f} | ", point.limit, point.share);
  if (planned.plan) {
    const auto gap = planned.gap();
    fmt::print("{:.2f} | {} | {:.2f} | ", point.percent(),
               gap ? fmt::format("{:.2f}", 100 * *gap) : "-", 100 * point.unused());
  } else {
    fmt::print("{} | | | ", strategy::name(planned.outcome));
  }
  fmt::print("{:.1f} |\n", point.used_seconds);
  std::fflush(stdout);
}

/// Whether `other`, found for no more memory under no larger limit, is better.
bool is_beaten(const Point& point, const Point& other, double points) {
  if (other.share > point.share || other.limit > point.limit || !other.planned.plan) return false;
  return !point.planned.plan || point.percent() > other.percent() + points;
}

bool leaves_room(const Point& point, double unused) {
  const planner::Planned& planned = point.planned;
  return planned.plan && planned.outcome != strategy::Outcome::optimal && planned.overhead() > 0 &&
         point.unused() > unused;
}

int count_faults(const std::vector<Point>& points, const Arguments& arguments) {
  int faults = 0;
  for (const Point& point : points) {
    const bool beaten = std::ranges::any_of(points, [&](const Point& other) {
      return is_beaten(point, other, arguments.points);
    });
    const bool roomy = leaves_room(point, arguments.unused);
    faults += beaten || roomy;
    if (beaten) fmt::print("{} s, {:.3f}: less is better\n", point.limit, point.share);
    if (roomy) fmt::print("{} s, {:.3f}: part is unused\n", point.limit, point.share);
  }
  return faults;
}

int sweep(const std::string& file, const Arguments& arguments) {
  const Graph graph = read_graph(file);
  fmt::print("\n{}, {} ops\n\n| limit s | budget | overhead % | gap % | unused % | used s |\n"
             "| --- | --- | --- | --- | --- | --- |\n", graph.name(), graph.num_ops());
  std::vector<Point> points;
  for (double limit : arguments.limits) {
    for (int i = 0; i < arguments.budgets; ++i) {
      const double width = arguments.to - arguments.from;
      const double share = arguments.from + width * i / std::max(1, arguments.budgets - 1);
      points.push_back(point(graph, share, limit, arguments));
      print(points.back());
    }
  }
  return count_faults(points, arguments);
}

void run(const Arguments& arguments) {
  int faults = 0;
  for (const std::string& file : arguments.graphs) faults += sweep(file, arguments);
  fmt::print("\n{} faults\n", faults);
  if (faults > 0) throw std::runtime_error("more memory or more work gave a worse plan");
}

}  // namespace
}  // namespace lowtide::bench

int main(int argc, char** argv) {
  return bench_main(argc, argv, "plan_sweep", "Whether more memory or more work gives better plans",
                    lowtide::bench::define, lowtide::bench::run);
}
