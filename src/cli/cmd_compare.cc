#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "base/budget.h"
#include "base/error.h"
#include "bounds/budget_floor.h"
#include "cli/arguments.h"
#include "cli/command.h"
#include "cli/output.h"
#include "cli/planned_json.h"
#include "cli/progress.h"
#include "graph/io.h"
#include "plan/replay.h"
#include "planner/planner.h"
#include "planner/resolve.h"
#include "report/table.h"

namespace lowtide::cli {
namespace {

struct CompareArguments {
  std::string graph;
  std::vector<std::string> budgets;
  std::vector<std::string> strategies;
  double time_limit = 30;
  bool quiet = false;
  bool json = false;
};

/// One strategy at one budget.
struct Row {
  std::string budget;    ///< as typed
  std::string strategy;  ///< with its options, as typed
  planner::Planned planned;
  std::string refusal;  ///< why the strategy did not start
};

std::vector<StrategyChoice> chosen(const std::vector<std::string>& texts) {
  std::vector<StrategyChoice> found;
  for (const std::string& text : texts) found.push_back(strategy_choice(text));
  if (!found.empty()) return found;
  for (const strategy::Strategy& strategy : strategy::strategies()) {
    found.push_back({std::string(strategy.name), &strategy});
  }
  return found;
}

/// A strategy that refuses the graph leaves a row with the reason.
Row row_of(const Graph& graph, const StrategyChoice& choice, const std::string& text, Bytes budget,
           double time_limit) {
  Control control(time_limit);
  Row row{text, choice.text, {}, {}};
  try {
    row.planned = planner::plan_within(graph, *choice.strategy, budget, choice.options, control);
  } catch (const InputError& error) {
    row.planned.budget_bytes = budget;
    row.refusal = error.what();
  }
  return row;
}

/// A row for each pair; after a stop request, only the rows so far.
std::vector<Row> all_rows(const Graph& graph, const CompareArguments& arguments) {
  const std::vector<StrategyChoice> wanted = chosen(arguments.strategies);
  std::vector<std::pair<std::string, Bytes>> budgets;
  for (const std::string& text : arguments.budgets) {
    budgets.emplace_back(text, planner::resolve(parse_budget(text), graph));
  }
  Progress progress(arguments.quiet);
  std::vector<Row> rows;
  for (const auto& [text, budget] : budgets) {
    for (const StrategyChoice& choice : wanted) {
      if (Control::stop_requested()) return rows;
      progress.show(fmt::format("{} at {} ...", choice.text, text));
      rows.push_back(row_of(graph, choice, text, budget, arguments.time_limit));
      const Row& row = rows.back();
      if (!row.refusal.empty()) progress.say(fmt::format("{}: {}", row.strategy, row.refusal));
    }
  }
  return rows;
}

std::string remark(const planner::Planned& planned, const std::string& refusal) {
  if (!refusal.empty()) return "refused";
  if (planned.plan) return std::string(strategy::name(planned.outcome));
  if (planned.smallest_budget) {
    return fmt::format("{}: needs {}", strategy::name(planned.outcome),
                       format_bytes(*planned.smallest_budget));
  }
  return std::string(strategy::name(planned.outcome));
}

std::string comparison_table(const std::vector<Row>& rows) {
  report::Table table(
      {"budget", "strategy", "overhead", "peak", "arena", "bound", "gap", "seconds", "status"});
  for (const auto& [budget, strategy, planned, refusal] : rows) {
    const Plan* plan = planned.plan ? &*planned.plan : nullptr;
    const auto arena =
        plan && plan->layout ? std::optional(plan->layout->arena_bytes) : std::nullopt;
    table.add({budget, strategy, plan ? percent(planned.overhead()) : "-",
               plan ? format_bytes(plan->peak_bytes) : "-", bytes_or_dash(arena),
               percent(planned.least_overhead()), percent(planned.gap()),
               fmt::format("{:.2f}", planned.seconds), remark(planned, refusal)});
  }
  return table.text(output_columns());
}

/// Of which plans the bounds are that are not of all: such a bound may be above what another
/// strategy finds in another order.
std::string bounds_text(const std::vector<Row>& rows) {
  std::map<std::string_view, std::set<std::string_view>> strategies;  // by the plans
  for (const Row& row : rows) {
    const std::optional<double> least = row.planned.least_overhead();
    if (!least || *least == 0) continue;  // no plan of any kind costs less than keep-all
    if (row.planned.plan->model == "any-order") continue;
    strategies[plans_of_bound(row.planned.plan->model)].insert(row.strategy);
  }
  std::string text;
  for (const auto& [plans, names] : strategies) {
    text += fmt::format("\nThe bound of {} is for {}.\n", fmt::join(names, ", "), plans);
  }
  return text;
}

nlohmann::json comparison_json(const Graph& graph, const std::vector<Row>& rows) {
  nlohmann::json list = nlohmann::json::array();
  for (const Row& row : rows) {
    list.push_back(to_json(row.planned, row.strategy));
    list.back()["budget"] = row.budget;
    if (row.refusal.empty()) continue;
    list.back()["status"] = "refused";
    list.back()["error"] = row.refusal;
  }
  const KeepAll reference = keep_all_reference(graph);
  return {{"graph", graph.name()},
          {"keep_all_cost", reference.cost},
          {"keep_all_peak_bytes", reference.peak_bytes},
          {"floor_bytes", bounds::budget_floor(graph)},
          {"status", Control::stop_requested() ? "stopped" : "complete"},
          {"rows", list}};
}

int compare(const CompareArguments& arguments) {
  const Graph graph = read_graph(arguments.graph);
  const std::vector<Row> rows = all_rows(graph, arguments);
  if (arguments.json) {
    print_json(comparison_json(graph, rows));
  } else {
    print(fmt::format("{}: keep-all peak {}, no plan needs less than {}\n\n{}{}", graph.name(),
                      format_bytes(keep_all_reference(graph).peak_bytes),
                      format_bytes(bounds::budget_floor(graph)), comparison_table(rows),
                      bounds_text(rows)));
  }
  return Control::stop_requested() ? kStopped : kSuccess;
}

}  // namespace

Action define_compare(CLI::App& app) {
  auto arguments = std::make_shared<CompareArguments>();
  app.add_option("graph", arguments->graph, "Graph to plan")->required()->type_name("GRAPH.json");
  app.add_option("--budgets", arguments->budgets, "Budgets, separated by commas")
      ->delimiter(',')
      ->required()
      ->take_all()
      ->transform(trimmed())
      ->type_name("LIST");
  app.add_option("--strategies", arguments->strategies,
                 "Strategies, separated by commas, each with options: segments:segments=8 [all]")
      ->delimiter(',')
      ->take_all()
      ->transform(trimmed())
      ->type_name("LIST");
  app.add_option("--time-limit", arguments->time_limit, "Seconds for each plan; 0: no limit [30]")
      ->check(in_range(0, kLargest))
      ->type_name("SECONDS");
  add_quiet_flag(app, arguments->quiet);
  add_json_flag(app, arguments->json);
  add_help(
      app,
      "Plans with every strategy at every budget. `bound` is the proved smallest overhead, `gap`\n"
      "how far the plan's cost is above it at most. Infeasible pairs show a budget that suffices.",
      "  lowtide compare unet.json --budgets 90%,70%,50%\n"
      "  lowtide compare unet.json --budgets 1.5GiB --strategies chen-sqrt,segments --json\n"
      "  lowtide compare unet.json --budgets 60% --strategies "
      "search,megatron:layers=1,megatron:granularity=selective\n");
  return [arguments] { return compare(*arguments); };
}

}  // namespace lowtide::cli
