#include <algorithm>
#include <cmath>

#include "strategy/checkpointing.h"

namespace lowtide::strategy {
namespace {

/// Ends a segment at the first articulation point at which its forward values exceed `limit`
/// bytes.
std::vector<int> greedy_cuts(const remat::StageGraph& graph, const std::vector<Cut>& points,
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

double forward_bytes(const remat::StageGraph& graph, int end) {
  double sum = 0;
  for (const remat::StageValue& value : graph.values()) {
    if (value.producer < end) sum += static_cast<double>(value.bytes);
  }
  return sum;
}

/// The search over the segment size b of the paper, from one segment to one per point.
Decision try_sizes(const CutGraph& cut, Trials& trials, const Control& control) {
  constexpr double kStep = 0.92;
  const double total = forward_bytes(cut.graph, cut.forward_end);
  const double least = total / (2.0 * static_cast<double>(cut.points.size() + 1));
  std::vector<int> previous;
  for (double limit = total; limit > least * kStep; limit *= kStep) {
    if (control.should_stop()) return trials.stopped();
    std::vector<int> cuts = greedy_cuts(cut.graph, cut.points, limit);
    if (cuts == previous) continue;
    const Checkpoints chosen = segmented(cut.graph, cut.forward_end, cuts);
    trials.offer(checkpointed_order(cut.graph, cut.forward_end, chosen));
    previous = std::move(cuts);
  }
  return trials.decision("segments of equal bytes");
}

Decision decide_by_chen_greedy(const PlanRequest& request) {
  return decide_at_articulation_points(request, [&](const CutGraph& cut, Trials& trials) {
    return try_sizes(cut, trials, request.control);
  });
}

}  // namespace

Strategy chen_greedy_strategy() {
  return {.name = "chen-greedy",
          .summary = "cuts the forward pass at articulation points into segments of equal bytes",
          .guarantee = "the cheapest of the segment sizes tried",
          .paper = "Chen, Xu, Zhang, Guestrin: Training deep nets with sublinear memory cost, 2016",
          .options = {},
          .decide = decide_by_chen_greedy};
}

}  // namespace lowtide::strategy
