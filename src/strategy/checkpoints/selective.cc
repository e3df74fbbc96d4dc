#include <utility>

#include "strategy/checkpointing.h"

namespace lowtide::strategy {
namespace {

std::vector<int> cheap_to_run_again(const PlanRequest& request, const remat::StageGraph& graph,
                                    int forward_end) {
  const std::vector<bool> cheap = cheap_stages(request.graph, graph, forward_end);
  std::vector<int> stages;
  for (int i = 0; i < graph.end(); ++i) {
    if (cheap[i]) stages.push_back(i);
  }
  return most_bytes_per_cost_first(graph, std::move(stages));
}

Decision decide_by_selective(const PlanRequest& request) {
  const remat::StageGraph graph(request.graph);
  const int end = forward_end(graph);
  const std::vector<int> cheap = cheap_to_run_again(request, graph, end);
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
