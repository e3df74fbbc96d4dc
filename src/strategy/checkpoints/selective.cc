#include <algorithm>

#include "strategy/checkpointing.h"

namespace lowtide::strategy {
namespace {

/// Forward stages worth running again, most bytes freed per cost first.
std::vector<int> by_price(const remat::StageGraph& graph, const std::vector<bool>& cheap) {
  std::vector<int> order;
  for (int i = 0; i < graph.end(); ++i) {
    if (cheap[i]) order.push_back(i);
  }
  const auto price = [&](int i) {
    return graph.stage(i).cost / static_cast<double>(output_bytes(graph, i));
  };
  std::ranges::stable_sort(order, {}, price);
  return order;
}

Decision decide_by_selective(const PlanRequest& request) {
  const remat::StageGraph graph(request.graph);
  const int end = forward_end(graph);
  const std::vector<int> cheap = by_price(graph, cheap_stages(request.graph, graph, end));
  constexpr std::size_t kSteps = 32;
  Trials trials(request);
  for (std::size_t step = 0; step <= kSteps; ++step) {
    if (request.control.should_stop()) return trials.stopped();
    const std::span first(cheap.data(), cheap.size() * step / kSteps);
    trials.offer(order_without_outputs(graph, end, first));
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
          .decide = decide_by_selective};
}

}  // namespace lowtide::strategy
