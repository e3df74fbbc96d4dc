#include <algorithm>
#include <numeric>

#include "ops/op_def.h"
#include "strategy/checkpointing.h"

namespace lowtide {
namespace {

double bytes_of(const StageGraph& graph, const Stage& stage) {
  double sum = 0;
  for (int v : stage.outputs) sum += static_cast<double>(graph.value(v).bytes);
  return sum;
}

/// Cost per byte above which an op of unknown type does not count as cheap: the median over the
/// forward pass.
double median_cost_per_byte(const StageGraph& graph, int end) {
  std::vector<double> ratios;
  for (int i = 0; i < end; ++i) {
    const double bytes = bytes_of(graph, graph.stage(i));
    if (bytes > 0) ratios.push_back(graph.stage(i).cost / bytes);
  }
  if (ratios.empty()) return 0;
  const auto middle = ratios.begin() + static_cast<std::ptrdiff_t>(ratios.size() / 2);
  std::ranges::nth_element(ratios, middle);
  return *middle;
}

/// Forward stages that are worth running again, those that free most bytes per cost first.
std::vector<int> cheap_stages(const Graph& graph, const StageGraph& stages, int end) {
  const double limit = median_cost_per_byte(stages, end);
  std::vector<int> cheap;
  for (int i = 0; i < end; ++i) {
    const Stage& stage = stages.stage(i);
    const double bytes = bytes_of(stages, stage);
    const OpDef* known = find_op(graph.op(stage.op).type);
    if (bytes > 0 && (known ? known->cheap : stage.cost <= limit * bytes)) cheap.push_back(i);
  }
  const auto price = [&](int i) {
    return stages.stage(i).cost / bytes_of(stages, stages.stage(i));
  };
  std::ranges::stable_sort(cheap, {}, price);
  return cheap;
}

/// Drops what the first `count` of the cheap stages make.
std::vector<OpId> order_without(const StageGraph& graph, int end, const std::vector<int>& cheap,
                                std::size_t count) {
  Checkpoints chosen{std::vector<bool>(graph.num_values(), true), lone_groups(graph)};
  for (std::size_t k = 0; k < count; ++k) {
    for (int v : graph.stage(cheap[k]).outputs) chosen.kept[v] = false;
  }
  return checkpointed_order(graph, end, std::move(chosen));
}

Decision decide(const PlanRequest& request) {
  const StageGraph graph(request.graph);
  const int end = forward_end(graph);
  const std::vector<int> cheap = cheap_stages(request.graph, graph, end);
  constexpr std::size_t kSteps = 32;
  Trials trials(request);
  for (std::size_t step = 0; step <= kSteps; ++step) {
    if (request.control.should_stop()) return trials.stopped();
    trials.offer(order_without(graph, end, cheap, cheap.size() * step / kSteps));
  }
  return trials.decision("running cheap ops again");
}

}  // namespace

Strategy selective_strategy() {
  return {.name = "selective",
          .summary = "runs cheap forward ops again: normalisation, activations, dropout",
          .guarantee = "runs no more of the cheap ops again than the budget asks for, in 32 steps",
          .paper = "Korthikanti et al.: Reducing activation recomputation in large transformer "
                   "models, 2022",
          .options = {},
          .decide = decide};
}

}  // namespace lowtide
