#include <algorithm>
#include <cmath>

#include "strategy/checkpointing.h"

namespace lowtide::strategy {
namespace {

/// Cuts the forward pass at about sqrt(n) of its n articulation points, evenly.
std::vector<int> sqrt_cuts(const std::vector<Cut>& points) {
  const auto n = static_cast<int>(points.size());
  const int segments = std::max(1, static_cast<int>(std::lround(std::sqrt(n + 1))));
  std::vector<int> cuts;
  for (int k = 1; k < segments; ++k) cuts.push_back(points[(n + 1) * k / segments - 1].stage);
  return cuts;
}

Decision decide_by_chen_sqrt(const PlanRequest& request) {
  return decide_at_articulation_points(request, [](const CutGraph& cut, Trials& trials) {
    const Checkpoints chosen = segmented(cut.graph, cut.forward_end, sqrt_cuts(cut.points));
    trials.offer(checkpointed_order(cut.graph, cut.forward_end, chosen));
    return trials.decision("sqrt(n) segments");
  });
}

}  // namespace

Strategy chen_sqrt_strategy() {
  return {.name = "chen-sqrt",
          .summary = "cuts the forward pass at sqrt(n) of its n articulation points",
          .guarantee = "on a chain of n equal layers, memory of about 2 sqrt(n) layers for at most "
                       "one more forward pass",
          .paper = "Chen, Xu, Zhang, Guestrin: Training deep nets with sublinear memory cost, 2016",
          .options = {},
          .decide = decide_by_chen_sqrt};
}

}  // namespace lowtide::strategy
