#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "cli/arguments.h"
#include "cli/command.h"
#include "cli/or_null.h"
#include "cli/output.h"
#include "cli/planned_json.h"
#include "cli/progress.h"
#include "graph/io.h"
#include "plan/io.h"
#include "plan/replay.h"
#include "planner/frontier.h"
#include "report/table.h"

namespace lowtide::cli {
namespace {

constexpr double kDefaultSeconds = 120;

struct FrontierArguments {
  std::string graph;
  int points = 9;
  Edits<planner::PlanningOptions> planning;
  std::string plans;
  bool quiet = false;
  bool json = false;
};

std::string frontier_table(const planner::Frontier& found) {
  report::Table table({"budget", "of keep-all", "overhead", "bound", "gap", "status"});
  for (const planner::Planned& point : found.points) {
    const double share =
        static_cast<double>(point.budget_bytes) / static_cast<double>(point.keep_all_peak_bytes);
    table.add({format_bytes(point.budget_bytes), percent(share), percent(point.overhead()),
               percent(point.least_overhead()), percent(point.gap()),
               std::string(strategy::name(point.outcome))});
  }
  return table.text(output_columns());
}

nlohmann::json frontier_json(const Graph& graph, const strategy::Strategy& strategy,
                             const planner::Frontier& found) {
  nlohmann::json points = nlohmann::json::array();
  for (const planner::Planned& point : found.points)
    points.push_back(to_json(point, strategy.name));
  const KeepAll reference = keep_all_reference(graph);
  return {{"graph", graph.name()},
          {"strategy", strategy.name},
          {"keep_all_cost", reference.cost},
          {"keep_all_peak_bytes", reference.peak_bytes},
          {"floor_bytes", found.floor_bytes},
          {"smallest_budget_bytes", or_null(found.smallest_budget)},
          {"status", found.stopped ? "stopped" : "complete"},
          {"points", points}};
}

/// Throws InputError if the folder does not exist and cannot be made.
void make_folder(const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (std::filesystem::is_directory(folder)) return;
  throw InputError(fmt::format("cannot write plans to {}: {}.", folder.string(),
                               error ? error.message() : "it is no folder"));
}

/// `graph` is the file that the plans are of: it may lie in the folder, under such a name.
void write_plans(const planner::Frontier& found, const std::filesystem::path& folder,
                 const std::filesystem::path& graph) {
  const auto file = [&folder](const planner::Planned& point) {
    return folder / fmt::format("{}.json", point.budget_bytes);
  };
  for (const planner::Planned& point : found.points) require_other_files({graph}, {file(point)});
  for (const planner::Planned& point : found.points) write_plan(*point.plan, file(point));
}

[[noreturn]] void refuse(const strategy::Strategy& strategy) {
  if (Control::stop_requested()) throw StoppedError("stopped before a plan was found.");
  throw InfeasibleError(
      fmt::format("{} finds no plan within keep-all's peak or less in the time given. Raise "
                  "--time-limit, or choose another --strategy.",
                  strategy.name));
}

int walk(const FrontierArguments& arguments) {
  planner::PlanningOptions planning{.seconds = kDefaultSeconds};
  apply(arguments.planning, planning);
  const strategy::Strategy& strategy = strategy_without_moves(planning.strategy);
  const Graph graph = read_graph(arguments.graph);
  if (!arguments.plans.empty()) make_folder(arguments.plans);
  Progress progress(arguments.quiet);
  Control control(planning.seconds, progress.messages());
  const planner::Frontier found =
      planner::frontier(graph, strategy, arguments.points, planning.strategy_options, control);
  if (found.points.empty()) refuse(strategy);
  if (!arguments.plans.empty()) write_plans(found, arguments.plans, arguments.graph);
  if (arguments.json) {
    print_json(frontier_json(graph, strategy, found));
  } else {
    print(fmt::format("{}: the smallest budget that {} reaches is {}; no plan needs less than {}"
                      "\n\n{}",
                      graph.name(), strategy.name, bytes_or_dash(found.smallest_budget),
                      format_bytes(found.floor_bytes), frontier_table(found)));
  }
  return found.stopped ? kStopped : kSuccess;
}

}  // namespace

Action define_frontier(CLI::App& app) {
  auto arguments = std::make_shared<FrontierArguments>();
  app.add_option("graph", arguments->graph, "Graph to plan")->required()->type_name("GRAPH.json");
  app.add_option("--points", arguments->points, "Budgets to plan within [9]")
      ->check(in_whole_range(2, 1000))
      ->type_name("N");
  add_planning_options(app, arguments->planning, kDefaultSeconds);
  app.add_option("--plans", arguments->plans, "Folder to write the plans to, named by budget")
      ->type_name("FOLDER");
  add_quiet_flag(app, arguments->quiet);
  add_json_flag(app, arguments->json);
  add_help(app,
           "The cost of every budget, from keep-all's peak down to the smallest budget that the\n"
           "strategy reaches. --time-limit is for all points together. The curve is\n"
           "monotone: a plan for less is also one for more, and a bound for more is one for less.",
           "  lowtide frontier unet.json\n"
           "  lowtide frontier unet.json --points 20 --plans plans/ --json\n");
  return [arguments] { return walk(*arguments); };
}

}  // namespace lowtide::cli
