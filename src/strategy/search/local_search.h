#pragma once

#include <cstdint>

#include "bounds/price_bound.h"
#include "remat/stage_graph.h"
#include "strategy/strategy.h"

namespace lowtide::strategy::search {

/// The effort of a search.
struct SearchEffort {
  std::int64_t moves;  ///< of the local search
  double bound_work;   ///< for each size of the bound's clusters, as PriceBound::raise() counts
  std::uint64_t seed;  ///< of the random numbers
  bool finds_starts = true;  ///< else annealing begins with no reruns
  std::int64_t states = 0;   ///< of the proof (proof.h), of small graphs only; 0: none
  double time_share = 1;     ///< of the time limit; without a plan by then, the rest as well
  double descent_share = 1;  ///< of the time left when the descent to the fewest bytes begins
  bool adapt_only = false;   ///< gives up when adapting the earlier answer fails
};

/// Whether the time limit, if there is one, is at least `per_stage` seconds for each stage.
bool has_seconds(const PlanRequest& request, const remat::StageGraph& stages, double per_stage);

/// Searches for a cheap plan whose first runs keep the order of the graph: raises a lower bound,
/// takes plans that are good at its prices as starts, and anneals them. If the request has an
/// earlier answer, only adapts that, as long as it does not get much more expensive.
Decision local_search(const PlanRequest& request, const SearchEffort& effort);

}  // namespace lowtide::strategy::search
