#include <fmt/format.h>

#include <algorithm>

#include "strategy/checkpointing.h"

namespace lowtide::strategy {
namespace {

Decision decide_by_segments(const PlanRequest& request) {
  const remat::StageGraph graph(request.graph);
  const int end = forward_end(graph);
  const int asked = static_cast<int>(request.options.at("segments"));
  const int most = std::max(1, end);
  Trials trials(request);
  for (int count : asked > 0 ? std::vector{std::min(asked, most)} : useful_counts(most)) {
    if (request.control.should_stop()) return trials.stopped();
    trials.offer(checkpointed_order(graph, end, segmented(graph, end, even_cuts(end, count))));
  }
  return trials.decision(asked > 0 ? fmt::format("{} segments", asked) : "segments");
}

}  // namespace

Strategy segments_strategy() {
  return {.name = "segments",
          .summary = "keeps what enters each of K equal segments of the forward pass",
          .guarantee = "each op runs at most twice unless values of a segment need another segment",
          .paper = "torch.utils.checkpoint_sequential",
          .options = {integer_option("segments", "number of segments; 0 tries all useful ones", 0,
                                     {0, 1e6})},
          .decide = decide_by_segments};
}

}  // namespace lowtide::strategy
