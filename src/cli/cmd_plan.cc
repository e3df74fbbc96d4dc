#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "base/budget.h"
#include "base/error.h"
#include "base/file.h"
#include "certify/check.h"
#include "certify/io.h"
#include "cli/arguments.h"
#include "cli/command.h"
#include "cli/memory_row.h"
#include "cli/output.h"
#include "cli/planned_json.h"
#include "cli/progress.h"
#include "cli/slower_memory.h"
#include "cost/roofline.h"
#include "graph/io.h"
#include "plan/io.h"
#include "plan/lower.h"
#include "plan/places.h"
#include "plan/residents.h"
#include "planner/does_not_fit.h"
#include "planner/more_budget.h"
#include "planner/planner.h"
#include "planner/resolve.h"
#include "report/explain.h"
#include "report/memory_plot.h"
#include "report/table.h"
#include "strategy/checkmate/exchange.h"

namespace lowtide::cli {
namespace {

struct PlanArguments {
  std::string graph;
  std::string budget;
  Edits<planner::PlanningOptions> planning;
  std::string output;
  std::string certificate;
  std::string picture;
  std::string model;     ///< to write
  std::string solution;  ///< to read
  SlowerArguments slower;
  bool explains = false;
  bool quiet = false;
  bool json = false;
};

constexpr int kExplainedRows = 8;
/// The extra time for --explain: this share of the time limit, and at most so many seconds.
constexpr double kExplainShare = 0.5;
constexpr double kExplainSeconds = 10;

/// Bytes in use over a step: the plan next to keep-all.
void draw_memory(const Graph& graph, const planner::Planned& planned, const std::string& path) {
  report::MemoryCurve within = report::memory_curve(graph, *planned.plan, "within the budget");
  within.budget_bytes = planned.budget_bytes;
  report::write_memory_plot(
      {.title = "Bytes in use over one step",
       .subtitle = fmt::format("{}, {} of {}", graph.name(), format_bytes(planned.budget_bytes),
                               format_bytes(planned.keep_all_peak_bytes)),
       .curves = {report::memory_curve(graph, keep_all(graph), "keep-all"), within},
       .resident_bytes = staying_bytes(graph, *planned.plan)},
      path);
}

std::string slower_text(const SlowerMemory& slower) {
  if (!slower.second) return format_bytes(slower.bytes) + " of slower memory";
  const PlaceBytes bytes = bytes_of_places(slower);
  return fmt::format("{} of the host's memory and {} of the disk", format_bytes(bytes.first),
                     format_bytes(bytes.second));
}

std::string plan_summary(const Graph& graph, const planner::Planned& planned) {
  const Plan& plan = *planned.plan;
  report::Table table({"graph", graph.name()}, report::Table::Align::left);
  table.add({"strategy", fmt::format("{} ({})", plan.strategy, strategy::name(planned.outcome))});
  table.add({"budget", format_bytes(planned.budget_bytes)});
  table.add({"arena",
             bytes_or_dash(plan.layout ? std::optional(plan.layout->arena_bytes) : std::nullopt)});
  table.add({"peak of live bytes", format_bytes(plan.peak_bytes)});
  table.add({"keep-all peak", format_bytes(planned.keep_all_peak_bytes)});
  add_memory_row(table, report::memory_curve(graph, plan, ""), planned.budget_bytes);
  if (plan.slower) {
    const std::size_t residents = plan.slower->residents.size();
    table.add(
        {"moved", fmt::format("{} values{}, {}", plan.slower->copies.size() - residents,
                              residents > 0 ? fmt::format(" and {} residents", residents) : "",
                              slower_text(*plan.slower))});
  }
  table.add({"overhead", percent(planned.overhead())});
  table.add({"gap to the lower bound", percent(planned.gap())});
  if (plan.lower_bound) {
    table.add({"the bound is for", std::string(plans_of_bound(plan.model))});
  }
  table.add({"times", cost::cost_origin(graph)});
  table.add({"planning time", duration(planned.seconds)});
  return table.text(output_columns());
}

int export_model(const Graph& graph, Bytes budget, const PlanArguments& arguments) {
  const auto model = strategy::checkmate::export_model(graph, budget);
  write_file(arguments.model, model.mps);
  if (arguments.json) {
    print_json({{"graph", graph.name()},
                {"file", arguments.model},
                {"budget_bytes", budget},
                {"rows", model.rows},
                {"columns", model.columns}});
  } else {
    print(fmt::format("{}: {} rows, {} columns. Solve it, then give the solution with the same "
                      "graph and budget to --import-solution.\n",
                      arguments.model, model.rows, model.columns));
  }
  return kSuccess;
}

planner::Planned imported(const Graph& graph, Bytes budget, const std::string& file) {
  const std::vector<OpId> executions =
      strategy::checkmate::import_solution(graph, budget, read_file(file), file);
  return planner::plan_of(graph, executions, "imported", budget);
}

/// Checked before anything is read. With slower memory, the default one is asked, for some ways.
const strategy::Strategy& strategy_for(const PlanArguments& arguments,
                                       const planner::PlanningOptions& planning) {
  if (!arguments.slower.is_given()) {
    return strategy_without_moves(planning.strategy);
  }
  static_cast<void>(offload::ways_of(planning.strategy));
  return strategy::default_strategy();
}

planner::Planned searched(const Graph& graph, const strategy::Strategy& strategy,
                          const PlanArguments& arguments, Bytes budget,
                          const planner::PlanningOptions& planning) {
  Progress progress(arguments.quiet);
  Control control(planning.seconds, progress.messages());
  if (const auto slower = slower_from(arguments.slower, graph)) {
    const offload::Ways ways = offload::ways_of(planning.strategy);
    return offload::plan_with(graph, budget, *slower, ways, control);
  }
  return planner::plan_within(graph, strategy, budget, planning.strategy_options, control);
}

void write_proof(const planner::Planned& planned, const std::string& file, bool quiet) {
  if (!planned.certificate) {
    throw InputError(fmt::format("{}: {} has no proof of a lower bound; the strategy search has.",
                                 file, planned.plan->strategy));
  }
  certify::write_certificate(*planned.certificate, file);
  const double proved = planned.certificate->lower_bound;
  if (certify::is_proved(planned.plan->lower_bound.value_or(0), proved)) return;
  Progress(quiet).say(fmt::format(
      "note: the certificate proves that no plan costs less than {:.9g}; that none costs less than "
      "{:.9g} comes from an exact program, which leaves no certificate",
      proved, *planned.plan->lower_bound));
}

/// The savings of a larger budget: with --explain by a plan for it, else only by the bound.
planner::MoreBudget with_more(const Graph& graph, const planner::Planned& planned,
                              const PlanArguments& arguments, const strategy::Strategy& strategy,
                              const planner::PlanningOptions& planning) {
  const Bytes extra = planner::worth_asking_for(planned.budget_bytes);
  const bool plans_again = arguments.explains && !Control::stop_requested();
  if (!plans_again) return planner::bound_with_more(graph, planned, extra);
  const double limit = kExplainShare * planning.seconds;
  Progress progress(arguments.quiet);
  Control control(limit > 0 ? std::min(limit, kExplainSeconds) : kExplainSeconds,
                  progress.messages());
  return planner::plan_with_more(graph, strategy, planned, extra, planning.strategy_options,
                                 control);
}

int plan(const PlanArguments& arguments) {
  planner::PlanningOptions planning;
  apply(arguments.planning, planning);
  const strategy::Strategy& strategy = strategy_for(arguments, planning);
  planning.budget = parse_budget(arguments.budget);
  require_other_files(
      {arguments.graph, arguments.solution},
      {arguments.output, arguments.certificate, arguments.picture, arguments.model});
  for (const std::string& file :
       {arguments.output, arguments.certificate, arguments.picture, arguments.model}) {
    require_can_write(file);
  }
  const Graph graph = read_graph(arguments.graph);
  const Bytes budget = planner::resolve(planning.budget, graph);
  if (!arguments.model.empty()) return export_model(graph, budget, arguments);
  const bool import = !arguments.solution.empty();
  const planner::Planned planned = import ? imported(graph, budget, arguments.solution)
                                          : searched(graph, strategy, arguments, budget, planning);
  if (!planned.plan && Control::stop_requested()) {
    throw StoppedError("stopped before a plan was found.");
  }
  if (!planned.plan) throw planner::DoesNotFit(graph, planned);
  if (!arguments.output.empty()) write_plan(*planned.plan, arguments.output);
  if (!arguments.certificate.empty()) write_proof(planned, arguments.certificate, arguments.quiet);
  if (!arguments.picture.empty()) draw_memory(graph, planned, arguments.picture);
  planner::MoreBudget more;  // of plans that move values, nothing is known
  if (!arguments.slower.is_given()) {
    more = with_more(graph, planned, arguments, strategy, planning);
  }
  if (arguments.json) {
    nlohmann::json document = to_json(planned, planned.plan->strategy);
    document["costs"] = cost::cost_origin(graph);
    document["with_more"] = to_json(more);
    print_json(document);
  } else {
    print(plan_summary(graph, planned));
    print("\n" + report::format_explanation(graph, report::explain(graph, *planned.plan),
                                            kExplainedRows, output_columns()));
    if (more.saves || more.saves_at_most) print("\n" + planner::format_more(more, planned));
  }
  return Control::stop_requested() ? kStopped : kSuccess;
}

}  // namespace

Action define_plan(CLI::App& app) {
  auto arguments = std::make_shared<PlanArguments>();
  app.add_option("graph", arguments->graph, "Graph to plan")->required()->type_name("GRAPH.json");
  app.add_option("--budget", arguments->budget,
                 "Bytes (512MB, 1.5GiB) or a share of the keep-all peak (60%)")
      ->required()
      ->type_name("BUDGET");
  add_planning_options(app, arguments->planning);
  add_slower_options(app, arguments->slower);
  app.add_option("-o,--output", arguments->output, "File to write the plan to")->type_name("FILE");
  app.add_option("--certificate", arguments->certificate,
                 "File to write the proof of the plan's lower bound to, for lowtide certify")
      ->type_name("FILE");
  app.add_option("--svg", arguments->picture, "File to draw bytes in use over a step to")
      ->type_name("FILE");
  app.add_flag("--explain", arguments->explains,
               "Also plan within a GiB more (or a tenth more), and print the saving");
  auto* const model =
      app.add_option("--export-mps", arguments->model,
                     "Write checkmate's integer program for another solver to FILE; plan nothing")
          ->type_name("FILE");
  app.add_option("--import-solution", arguments->solution,
                 "Plan by such a solver's solution of that program")
      ->excludes(model)
      ->type_name("FILE");
  add_quiet_flag(app, arguments->quiet);
  add_json_flag(app, arguments->json);
  add_help(
      app,
      "The budget counts everything that the step holds, fragmentation included: the arena of\n"
      "the plan is within it. Ctrl-C ends the search with the best plan so far. Also prints the\n"
      "values held at the peak, the ops that run again, the ops that leave too little memory to\n"
      "hold their values instead, and the largest possible saving of a larger budget.",
      "  lowtide plan unet.json --budget 60%\n"
      "  lowtide plan unet.json --budget 40% --bandwidth 2GB/s,1.6GB/s --latency 100\n"
      "  lowtide plan unet.json --budget 1.5GiB --strategy chen-sqrt --time-limit 10 -o "
      "plan.json\n");
  return [arguments] { return plan(*arguments); };
}

}  // namespace lowtide::cli
