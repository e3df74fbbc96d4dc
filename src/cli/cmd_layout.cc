#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/budget.h"
#include "base/control.h"
#include "base/error.h"
#include "base/file.h"
#include "cli/arguments.h"
#include "cli/command.h"
#include "cli/layout_input.h"
#include "cli/or_null.h"
#include "cli/output.h"
#include "cli/pool_table.h"
#include "packing/solve.h"
#include "plan/replay.h"
#include "report/layout_boxes.h"
#include "report/layout_plot.h"

namespace lowtide::cli {
namespace {

struct LayoutArguments {
  LayoutSource source;
  std::string capacity, output, picture;
  std::optional<Bytes> alignment;
  std::optional<double> seconds;
  bool compares = false;
  bool with_residents = false;
  bool json = false;

  Bytes alignment_for(const LayoutInput& input) const {
    return alignment.value_or(input.of_plan ? input.of_plan->graph.alignment() : 1);
  }
};

/// The work of a fast machine in a second, so that time runs out before the work does.
constexpr double kWorkPerSecond = 4e8;
constexpr std::int64_t kUnlimitedWork = std::int64_t{1} << 60;
constexpr double kPackingSeconds = 10, kPlanningSeconds = 30;

std::optional<Bytes> capacity_of(const LayoutArguments& arguments) {
  if (arguments.capacity.empty()) return std::nullopt;
  return parse_amount(arguments.capacity, "--capacity");
}

/// All searches share one work budget; it must be large enough for the time limit.
std::int64_t work_in(double seconds) {
  return seconds > 0 ? static_cast<std::int64_t>(kWorkPerSecond * seconds) : kUnlimitedWork;
}

void require_fit(const packing::SolvedPacking& solved, std::optional<Bytes> capacity) {
  if (!capacity || solved.packing.height <= *capacity) return;
  if (solved.lower_bound > *capacity) {
    throw InfeasibleError(fmt::format(
        "no packing fits within {} bytes: every one needs at least {}. The lowest found needs {}.",
        *capacity, solved.lower_bound, solved.packing.height));
  }
  throw InfeasibleError(fmt::format(
      "no packing within {} bytes was found in time, and none was ruled out: the lowest found "
      "needs {}, any needs at least {}. Allow more by --time-limit or --capacity.",
      *capacity, solved.packing.height, solved.lower_bound));
}

/// "resnet50-b32 within 1.11 GiB (40.0% of keep-all) by search", "resnet50-b32 by keep-all"
std::string plan_title(const PlanToPack& of) {
  const std::optional<Bytes> budget = of.plan.budget_bytes;
  if (!budget) return fmt::format("{} by {}", of.graph.name(), of.plan.strategy);
  const auto keep_all = static_cast<double>(keep_all_reference(of.graph).peak_bytes);
  return fmt::format("{} within {} ({} of keep-all) by {}", of.graph.name(), format_bytes(*budget),
                     percent(static_cast<double>(*budget) / keep_all), of.plan.strategy);
}

void draw_layout(const LayoutInput& input, const packing::SolvedPacking& solved,
                 const LayoutArguments& arguments) {
  const packing::Packing& packing = solved.packing;
  report::LayoutPlot plot{
      .title = std::filesystem::path(arguments.source.file).filename().string(),
      .subtitle = fmt::format("{} buffers, each at its address while it is alive",
                              input.table.buffers.size()),
      .time_label = "time"};
  if (const auto& of = input.of_plan) {
    plot.title = plan_title(*of);
    plot.time_label = "actions of one training step, executions and frees";
    plot.boxes = report::boxes_of(of->graph, of->plan, of->needed, packing);
    plot.budget_bytes = of->plan.budget_bytes;
  } else {
    plot.boxes = report::boxes_of(input.table.ids, input.table.buffers, packing);
  }
  write_file(arguments.picture, report::format_layout_plot(plot));
}

/// Bytes of each resident, if the comparison includes these.
std::vector<Bytes> held(const LayoutInput& input, const LayoutArguments& arguments) {
  std::vector<Bytes> bytes;
  if (!arguments.with_residents) return bytes;
  if (!input.of_plan) throw InputError("--with-residents is for a graph: a table has none.");
  for (const Tensor& tensor : input.of_plan->graph.tensors()) {
    if (tensor.kind == Kind::resident && tensor.bytes > 0) bytes.push_back(tensor.bytes);
  }
  return bytes;
}

std::string packing_summary(const LayoutInput& input, const packing::SolvedPacking& solved) {
  std::string text =
      fmt::format("{} buffers: height {}, lower bound {}, {}\n", input.table.buffers.size(),
                  solved.packing.height, solved.lower_bound,
                  solved.proven() ? "proven the lowest" : "not proven the lowest");
  if (const auto& of = input.of_plan) {
    text = fmt::format("{}, and {} of residents\n{}", plan_title(*of),
                       format_bytes(of->graph.resident_bytes()), text);
  }
  return text;
}

nlohmann::json layout_json(const LayoutInput& input, const packing::SolvedPacking& solved) {
  nlohmann::json document = {{"status", solved.proven() ? "optimal" : "feasible"},
                             {"buffers", input.table.buffers.size()},
                             {"height", solved.packing.height},
                             {"lower_bound", solved.lower_bound},
                             {"proven", solved.proven()}};
  if (const auto& of = input.of_plan) {
    document["graph"] = of->graph.name();
    document["strategy"] = of->plan.strategy;
    document["budget_bytes"] = or_null(of->plan.budget_bytes);
    document["resident_bytes"] = of->graph.resident_bytes();
  }
  return document;
}

void report_layout(const LayoutInput& input, const packing::SolvedPacking& solved,
                   const LayoutArguments& arguments) {
  std::optional<PoolComparison> comparison;
  if (arguments.compares) {
    comparison = compare_pools(input.table.buffers, solved, held(input, arguments),
                               arguments.alignment_for(input));
  }
  if (arguments.json) {
    nlohmann::json document = layout_json(input, solved);
    if (comparison) {
      document["comparison"] = to_json(*comparison);
      document["comparison"]["with_residents"] = arguments.with_residents;
    }
    print_json(document);
    return;
  }
  print(packing_summary(input, solved));
  if (!comparison) return;
  const char* residents = arguments.with_residents ? "Residents are counted.\n" : "";
  print(fmt::format("\n{}{}", text(*comparison), residents));
}

int layout(const LayoutArguments& arguments) {
  const std::optional<Bytes> capacity = capacity_of(arguments);
  LayoutSource source = arguments.source;
  source.seconds = arguments.seconds.value_or(kPlanningSeconds);
  require_other_files({source.file, source.plan}, {arguments.output, arguments.picture});
  const LayoutInput input = read_layout_input(source);
  const double seconds = arguments.seconds.value_or(kPackingSeconds);
  const Control control(seconds);
  const packing::PackingGoal goal{arguments.alignment_for(input), capacity, work_in(seconds)};
  const packing::SolvedPacking solved =
      packing::solve_tied_packing(input.table.buffers, input.table.ties, goal, control);
  require_fit(solved, capacity);
  if (!arguments.output.empty())
    write_file(arguments.output, packing::to_csv(input.table, solved.packing));
  if (!arguments.picture.empty()) draw_layout(input, solved, arguments);
  if (arguments.output != "/dev/stdout") report_layout(input, solved, arguments);
  return Control::stop_requested() ? kStopped : kSuccess;
}

}  // namespace

Action define_layout(CLI::App& app) {
  auto arguments = std::make_shared<LayoutArguments>();
  LayoutSource& source = arguments->source;
  app.add_option("input", source.file, "Buffers with sizes and lives, or a graph")
      ->required()
      ->type_name("FILE.csv|GRAPH.json");
  auto* const plan = app.add_option("--plan", source.plan, "Of the graph: whose buffers to place")
                         ->type_name("PLAN.json");
  app.add_option("--budget", source.budget, "Plan the graph within this [keep every value]")
      ->excludes(plan)
      ->type_name("BUDGET");
  app.add_option("--strategy,-s", source.strategy, "How to; `lowtide strategies` lists them")
      ->excludes(plan)
      ->type_name("STRATEGY");
  app.add_option("--capacity", arguments->capacity, "Largest allowed height [the lowest possible]")
      ->type_name("AMOUNT");
  app.add_option("--alignment", arguments->alignment,
                 "Of every offset, a power of two [1; of a plan 64]")
      ->check(in_whole_range(1, kLargestWhole))
      ->type_name("BYTES");
  app.add_option("--time-limit", arguments->seconds,
                 "Seconds at most, and as many to plan; 0: no limit [10, and 30]")
      ->check(in_range(0, kLargest))
      ->type_name("SECONDS");
  auto* const compare =
      app.add_flag("--compare", arguments->compares,
                   "Also serve the same requests by the pools of frameworks and textbooks");
  app.add_flag("--with-residents", arguments->with_residents,
               "Include the graph's resident tensors in the comparison")
      ->needs(compare);
  app.add_option("--svg", arguments->picture, "File to draw time against addresses to")
      ->type_name("FILE");
  app.add_option("-o,--output", arguments->output, "File to write, with offsets")
      ->type_name("OUT.csv");
  add_quiet_flag(app, source.quiet);
  add_json_flag(app, arguments->json);
  add_help(app,
           "Gives every buffer an offset so that no two that are alive together overlap, and the\n"
           "highest end is as low as possible. Reads the CSV of MiniMalloc: id,lower,upper,size\n"
           "and, where there are, alignment and offset, where the buffer must lie, and same and\n"
           "group, names of buffers that share an offset or lie side by side. Or reads the\n"
           "buffers of a graph's plan, which lie after its residents.",
           "  lowtide layout buffers.csv -o placed.csv\n"
           "  lowtide layout buffers.csv --capacity 1MiB\n"
           "  lowtide layout resnet50.json --budget 40% --compare --svg layout.svg\n");
  return [arguments] { return layout(*arguments); };
}

}  // namespace lowtide::cli
