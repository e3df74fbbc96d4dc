#include "train/sized_steps.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/machine_memory.h"
#include "cost/roofline.h"
#include "graph/extent.h"
#include "largest/interpolation.h"
#include "planner/transfer.h"
#include "profile/heavy_ops.h"
#include "train/profile_cache.h"
#include "train/run.h"

namespace lowtide::train {
namespace {

/// What an op needs to run alone.
Bytes bytes_alone(const Graph& graph, OpId id) {
  return touched_bytes(graph, graph.op(id)) + graph.op(id).workspace_bytes;
}

}  // namespace

SizedSteps::SizedSteps(TrainOptions options, std::int64_t models::ModelOptions::* field,
                       const largest::Sizes& sizes, bool runs, Control::Listener listener)
    : options_(std::move(options)),
      field_(field),
      sizes_(sizes),
      runs_(runs),
      listener_(std::move(listener)) {}

TrainOptions SizedSteps::of_size(std::int64_t size) const {
  TrainOptions options = options_;
  options.recipe.sizes.*field_ = size;
  return options;
}

Graph SizedSteps::bare(std::int64_t size) {
  return cost::roofline_priced(bare_graph(of_size(size).recipe));
}

profile::Measure SizedSteps::measure() const {
  return options_.measure_again ? profile::Measure::again : profile::Measure::lacking;
}

void SizedSteps::expect(std::int64_t largest) {
  for (std::int64_t part : {4, 2}) {
    const std::int64_t size = largest / part / sizes_.multiple * sizes_.multiple;
    static_cast<void>(measured(std::max(size, sizes_.smallest())));
  }
  if (!measured_.contains(largest)) measure_heavy_ops(largest);
}

std::vector<Graph> SizedSteps::alike(const Graph& graph) const {
  std::vector<Graph> found;
  for (const auto& [size, step] : measured_) {
    if (planner::same_structure(graph, step)) found.push_back(step);
  }
  if (!found.empty() && partly_measured_ && planner::same_structure(graph, *partly_measured_)) {
    found.push_back(*partly_measured_);
  }
  return found;
}

void SizedSteps::measure_heavy_ops(std::int64_t size) {
  const Graph graph = bare(size);
  const std::vector<Graph> others = alike(graph);
  if (others.empty()) return;
  const Graph guess = largest::interpolated(graph, others);
  std::vector<OpId> ops = profile::heavy_ops(guess);
  const Bytes free = machine_memory().free;
  std::erase_if(ops, [&](OpId id) { return bytes_alone(guess, id) > free; });
  Profiled profiled = profile_some_here(bare_graph(of_size(size).recipe), ops, options_.profile,
                                        Control(0, listener_), measure());
  partly_measured_ = std::move(profiled.graph);
}

Graph SizedSteps::estimated(std::int64_t size) {
  if (measured_.contains(size)) return measured(size);
  const Graph graph = bare(size);
  const std::vector<Graph> others = alike(graph);
  return others.empty() ? measured(size) : largest::interpolated(graph, others);
}

Graph SizedSteps::measured(std::int64_t size) {
  const auto known = measured_.find(size);
  if (known != measured_.end()) return known->second;
  Profiled profiled = profile_here(bare_graph(of_size(size).recipe), options_.profile,
                                   Control(0, listener_), measure());
  return measured_.emplace(size, std::move(profiled.graph)).first->second;
}

Bytes SizedSteps::reserved_bytes(const Graph& graph) {
  return executor_bytes(graph, options_.memory);
}

std::optional<largest::StepRun> SizedSteps::run(std::int64_t size, const Graph& graph,
                                                const planner::Planned& planned) {
  if (!runs_) return std::nullopt;
  const Bytes free = machine_memory().free;
  if (planned.plan->layout->arena_bytes > free) {
    listener_(fmt::format("note: no step is run, as this machine has only {} of memory now",
                          format_bytes(free)));
    return std::nullopt;
  }
  const TrainOptions options = of_size(size);
  const Bytes reserved = reserved_bytes(graph);
  const Fitted fitted{planned, {planned.budget_bytes + reserved, reserved}};
  const Step step{graph, keep_all_reference(graph)};
  Run run(step, fitted, options);
  const runtime::StepReport report = run.advance();
  return largest::StepRun{report.measured_peak_bytes, report.seconds};
}

}  // namespace lowtide::train
