#include "cli/layout_input.h"

#include <fmt/format.h>

#include <utility>

#include "base/budget.h"
#include "base/error.h"
#include "base/file.h"
#include "cli/progress.h"
#include "graph/io.h"
#include "plan/io.h"
#include "plan/lower.h"
#include "plan/verify.h"
#include "planner/does_not_fit.h"
#include "planner/planner.h"
#include "planner/resolve.h"

namespace lowtide::cli {
namespace {

bool is_json(std::string_view file) {
  const std::string_view text = without_byte_order_mark(file);
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  return first != std::string_view::npos && text[first] == '{';
}

void refuse_plans(const LayoutSource& source) {
  for (const auto& [option, value] :
       {std::pair("--plan", source.plan), std::pair("--strategy", source.strategy),
        std::pair("--budget", source.budget)}) {
    if (value.empty()) continue;
    throw InputError(
        fmt::format("{}: {} is for a graph, and this is a table of buffers.", source.file, option));
  }
}

Plan read_valid_plan(const Graph& graph, const std::string& file) {
  Plan plan = read_plan(file);
  if (const auto violation = verify(graph, plan)) {
    throw InputError(fmt::format("{}: the plan breaks the rule {}: {}", file, name(violation->rule),
                                 violation->message));
  }
  return plan;
}

Plan made_plan(const Graph& graph, const LayoutSource& source) {
  if (source.budget.empty() && !source.strategy.empty()) {
    throw InputError("--strategy needs a --budget to plan within.");
  }
  if (source.budget.empty()) return keep_all(graph);
  const strategy::Strategy& strategy = strategy::find_strategy_or_default(source.strategy);
  const Bytes budget = planner::resolve(parse_budget(source.budget), graph);
  Progress progress(source.quiet);
  Control control(source.seconds, progress.messages());
  planner::Planned planned = planner::plan_within(graph, strategy, budget, {}, control);
  if (!planned.plan && Control::stop_requested()) {
    throw StoppedError("stopped before a plan was found.");
  }
  if (!planned.plan) throw planner::DoesNotFit(graph, planned);
  return std::move(*planned.plan);
}

/// "t12@40": tensor 12 from action 40 on; "w7@40": the workspace of op 7.
packing::BufferTable buffer_table(const layout::PlanBuffers& needed) {
  packing::BufferTable table{.ids = {}, .buffers = needed.buffers};
  for (std::size_t i = 0; i < needed.buffers.size(); ++i) {
    const Placement& first = needed.first[i];
    table.ids.push_back(
        fmt::format("{}{}@{}", first.workspace ? 'w' : 't', first.index, needed.buffers[i].begin));
  }
  return table;
}

}  // namespace

LayoutInput read_layout_input(const LayoutSource& source) {
  const std::string text = read_file(source.file);
  if (!is_json(text)) {
    refuse_plans(source);
    return {packing::parse_buffers(text, source.file), std::nullopt};
  }
  Graph graph = parse_graph(text, source.file);
  Plan plan = source.plan.empty() ? made_plan(graph, source) : read_valid_plan(graph, source.plan);
  layout::PlanBuffers needed = layout::buffers_of(graph, plan);
  packing::BufferTable table = buffer_table(needed);
  return {std::move(table), PlanToPack{std::move(graph), std::move(plan), std::move(needed)}};
}

}  // namespace lowtide::cli
