#include <algorithm>
#include <cmath>

#include "strategy/checkpointing.h"

namespace lowtide {
namespace {

/// Ends a segment at the first articulation point at which the forward values made in it exceed
/// `limit` bytes.
std::vector<int> greedy_cuts(const StageGraph& graph, const std::vector<Cut>& points,
                             double limit) {
  std::vector<int> cuts;
  double segment = 0;
  int from = 0;
  for (const Cut& point : points) {
    for (int i = from; i < point.stage; ++i) {
      for (int v : graph.stage(i).outputs) segment += static_cast<double>(graph.value(v).bytes);
    }
    from = point.stage;
    if (segment <= limit) continue;
    cuts.push_back(point.stage);
    segment = 0;
  }
  return cuts;
}

double forward_bytes(const StageGraph& graph, int end) {
  double sum = 0;
  for (const StageValue& value : graph.values()) {
    if (value.producer < end) sum += static_cast<double>(value.bytes);
  }
  return sum;
}

/// The search over the segment size b of the paper, from one segment to one per point.
Decision decide(const PlanRequest& request) {
  const StageGraph graph(request.graph);
  const int end = forward_end(graph);
  const std::vector<Cut> points = articulation_cuts(graph, end);
  if (points.empty()) {
    return decide_without_reruns(request, graph, "the forward pass has no articulation points");
  }
  constexpr double kStep = 0.92;
  const double total = forward_bytes(graph, end);
  const double least = total / (2.0 * static_cast<double>(points.size() + 1));
  Trials trials(request);
  trials.offer(stage_order(graph));
  std::vector<int> previous;
  for (double limit = total; limit > least * kStep; limit *= kStep) {
    if (request.control.should_stop()) return trials.stopped();
    std::vector<int> cuts = greedy_cuts(graph, points, limit);
    if (cuts == previous) continue;
    trials.offer(checkpointed_order(graph, end, segmented(graph, end, cuts)));
    previous = std::move(cuts);
  }
  return trials.decision("segments of equal bytes");
}

}  // namespace

Strategy chen_greedy_strategy() {
  return {.name = "chen-greedy",
          .summary = "cuts the forward pass at articulation points into segments of equal bytes",
          .guarantee = "the cheapest of the segment sizes tried",
          .paper = "Chen, Xu, Zhang, Guestrin: Training deep nets with sublinear memory cost, 2016",
          .options = {},
          .decide = decide};
}

}  // namespace lowtide
