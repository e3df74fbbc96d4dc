#include <algorithm>
#include <cstdint>
#include <numeric>

#include "strategy/checkpointing.h"

namespace lowtide::strategy {
namespace {

/// In the order of the option's choices.
enum class GreedyRule : std::uint8_t { benefit, slack, pressure };

/// The cost of the longest path of the graph through each stage.
std::vector<double> longest_paths(const remat::StageGraph& graph) {
  std::vector<double> until(graph.num_stages());
  std::vector<double> from(graph.num_stages());
  for (int i = 0; i < graph.num_stages(); ++i) {
    for (int v : graph.stage(i).inputs) {
      until[i] = std::max(until[i], until[graph.value(v).producer]);
    }
    until[i] += graph.stage(i).cost;
  }
  for (int i = graph.end(); i >= 0; --i) {
    from[i] += graph.stage(i).cost;
    for (int v : graph.stage(i).inputs) {
      double& before = from[graph.value(v).producer];
      before = std::max(before, from[i]);
    }
  }
  std::vector<double> through(graph.num_stages());
  for (int i = 0; i < graph.num_stages(); ++i) {
    through[i] = until[i] + from[i] - graph.stage(i).cost;
  }
  return through;
}

/// Per stage: the bytes of each output, times the bytes in use in each stage in which it lies idle
/// between the forward pass and its first reader behind it.
std::vector<double> pressures(const remat::StageGraph& graph, int forward_end) {
  const std::vector<Bytes> in_use = remat::keep_all_profile(graph);
  std::vector<double> before(in_use.size() + 1);  // sums of the bytes in use
  std::partial_sum(in_use.begin(), in_use.end(), before.begin() + 1);
  std::vector<double> result(graph.num_stages());
  for (const remat::StageValue& value : graph.values()) {
    const auto later = std::ranges::lower_bound(value.readers, forward_end);
    if (value.producer >= forward_end || later == value.readers.end()) continue;
    const int idle = later == value.readers.begin() ? value.producer : *(later - 1);
    result[value.producer] +=
        static_cast<double>(value.bytes) * (before[*later] - before[idle + 1]);
  }
  return result;
}

/// Per stage: how much the rule is for running it again.
std::vector<double> scores(const remat::StageGraph& graph, int forward_end, GreedyRule rule) {
  if (rule == GreedyRule::pressure) return pressures(graph, forward_end);
  std::vector<double> result(graph.num_stages());
  if (rule == GreedyRule::slack) {
    std::ranges::transform(longest_paths(graph), result.begin(), std::negate());
    return result;
  }
  for (int i = 0; i < forward_end; ++i) {
    result[i] = static_cast<double>(output_bytes(graph, i)) / graph.stage(i).cost;
  }
  return result;
}

/// The forward stages that make something, the one that the rule is most for first; of equals, the
/// one with most bytes.
std::vector<int> by_rule(const remat::StageGraph& graph, int forward_end, GreedyRule rule) {
  const std::vector<double> score = scores(graph, forward_end, rule);
  std::vector<int> stages;
  for (int i = 0; i < forward_end; ++i) {
    if (output_bytes(graph, i) > 0) stages.push_back(i);
  }
  std::ranges::stable_sort(stages, [&](int a, int b) {
    if (score[a] != score[b]) return score[a] > score[b];
    return output_bytes(graph, a) > output_bytes(graph, b);
  });
  return stages;
}

Decision decide_by_greedy(const PlanRequest& request) {
  constexpr std::size_t kSteps = 64;
  const remat::StageGraph graph(request.graph);
  const int end = forward_end(graph);
  const auto rule = static_cast<GreedyRule>(request.options.at("rule"));
  const std::vector<int> stages = by_rule(graph, end, rule);
  Trials trials(request);
  for (std::size_t step = 0; step <= kSteps; ++step) {
    if (request.control.should_stop()) return trials.stopped();
    const std::span first(stages.data(), stages.size() * step / kSteps);
    trials.offer(order_without_outputs(graph, end, first));
  }
  return trials.decision("running ops again that a rule is most for");
}

}  // namespace

Strategy greedy_strategy() {
  return {.name = "greedy",
          .summary = "runs forward ops again, one by one, in the order of a rule of thumb",
          .guarantee = "runs no more of them again than the budget asks for, in 64 steps",
          .paper = "Chvátal: A greedy heuristic for the set-covering problem, 1979",
          .options = {choice_option("rule",
                                    "which first: those that free most bytes per cost (benefit); "
                                    "those farthest from the longest path through the graph "
                                    "(slack); those whose bytes lie idle while most memory is in "
                                    "use (pressure)",
                                    {"benefit", "slack", "pressure"})},
          .decide = decide_by_greedy};
}

}  // namespace lowtide::strategy
