#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "base/budget.h"
#include "base/error.h"
#include "cli/arguments.h"
#include "cli/command.h"
#include "cli/or_null.h"
#include "cli/output.h"
#include "graph/io.h"
#include "plan/io.h"
#include "plan/replay.h"
#include "plan/verify.h"
#include "planner/resolve.h"

namespace lowtide::cli {
namespace {

struct VerifyArguments {
  std::string graph, plan, budget;
  bool json = false;
};

std::optional<Bytes> budget_of(const VerifyArguments& arguments, const Graph& graph) {
  if (arguments.budget.empty()) return std::nullopt;
  return planner::resolve(parse_budget(arguments.budget), graph);
}

int report_check(const Violation& violation, bool json) {
  const std::string where =
      violation.action == kNone ? "" : fmt::format(" at action {}", violation.action);
  const std::string message = fmt::format("the plan breaks the rule {}{}: {}", name(violation.rule),
                                          where, violation.message);
  std::cerr << "lowtide: " << message << '\n';
  if (json) {
    print_json({{"valid", false},
                {"status", "invalid"},
                {"error", message},
                {"rule", name(violation.rule)},
                {"action", violation.action}});
  }
  return kBadInput;
}

int report_check(const Graph& graph, const Plan& plan, bool json) {
  const Replay replayed = replay(graph, plan);
  const std::optional<Bytes> arena =
      plan.layout ? std::optional(plan.layout->arena_bytes) : std::nullopt;
  if (json) {
    print_json({{"valid", true},
                {"status", "valid"},
                {"cost", replayed.cost},
                {"overhead", replayed.cost / keep_all_reference(graph).cost - 1},
                {"peak_bytes", replayed.peak_bytes},
                {"arena_bytes", or_null(arena)}});
  } else {
    print(fmt::format("valid: peak {}, arena {}, cost {} {} ({} over keep-all)\n",
                      format_bytes(replayed.peak_bytes), bytes_or_dash(arena), replayed.cost,
                      graph.cost_unit(),
                      percent(replayed.cost / keep_all_reference(graph).cost - 1)));
  }
  return kSuccess;
}

int verify_files(const VerifyArguments& arguments) {
  const Graph graph = read_graph(arguments.graph);
  const Plan plan = read_plan(arguments.plan);
  const auto violation = verify(graph, plan, budget_of(arguments, graph));
  return violation ? report_check(*violation, arguments.json)
                   : report_check(graph, plan, arguments.json);
}

}  // namespace

Action define_verify(CLI::App& app) {
  auto arguments = std::make_shared<VerifyArguments>();
  app.add_option("graph", arguments->graph, "Graph")->required()->type_name("GRAPH.json");
  app.add_option("plan", arguments->plan, "Plan for it")->required()->type_name("PLAN.json");
  app.add_option("--budget", arguments->budget, "Budget to hold it to [the plan's own]")
      ->type_name("BUDGET");
  add_json_flag(app, arguments->json);
  add_help(
      app,
      "Replays the plan by code that no planner shares and names the first rule that it breaks.\n"
      "A plan that breaks one ends with exit code 2.",
      "  lowtide verify unet.json plan.json --budget 1.5GiB\n");
  return [arguments] { return verify_files(*arguments); };
}

}  // namespace lowtide::cli
