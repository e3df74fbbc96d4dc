#pragma once

#include "support/brute_force.h"
#include "support/random_graph.h"

namespace lowtide::testing {

/// A graph small enough to try every set of reruns, with all plans.
struct Tiny {
  Graph graph;
  remat::StageGraph stages;
  std::vector<Candidate> plans;  ///< keep-all first
};

/// Random graphs of that kind, one after the other.
class TinyGraphs {
 public:
  explicit TinyGraphs(std::uint64_t first_seed, bool in_place = true)
      : seed_(first_seed), in_place_(in_place) {}

  Tiny next() {
    for (;; ++seed_) {
      Graph graph =
          random_graph(seed_, {.ops = 5 + static_cast<int>(seed_ % 6), .in_place = in_place_});
      remat::StageGraph stages(graph);
      const std::vector<remat::Event> events = allowed_events(stages);
      if (events.size() < 3 || events.size() > 11) continue;
      ++seed_;
      std::vector<Candidate> plans = all_plans(graph, stages, events);
      return {std::move(graph), std::move(stages), std::move(plans)};
    }
  }

 private:
  std::uint64_t seed_;
  bool in_place_;
};

}  // namespace lowtide::testing
