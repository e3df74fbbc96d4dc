#pragma once

#include <cstdint>

#include "bounds/price_bound.h"
#include "remat/stage_graph.h"
#include "strategy/strategy.h"

namespace lowtide::strategy::search {

/// How much work a search may do.
struct SearchEffort {
  std::int64_t moves;  ///< of the local search
  double bound_work;   ///< for each size of the bound's clusters, as PriceBound::raise() counts
  std::uint64_t seed;  ///< of the random numbers
  std::int64_t states = 0;  ///< of the proof (proof.h), of small graphs only; 0: none
  double time_share = 1;    ///< of the time limit; when that is up without a plan, the rest as well
  bool adapt_only = false;  ///< gives up when the answer to go on from leads to nothing
};

/// Whether the time limit, where there is one, is at least so many seconds for each stage.
bool has_seconds(const PlanRequest& request, const remat::StageGraph& stages, double per_stage);

/// Searches for a cheap plan whose first runs keep the order of the graph: raises a lower bound,
/// takes plans that are good at its prices as starts, and anneals them. With an answer to go on
/// from, only adapts that, as long as that does not get much dearer.
Decision local_search(const PlanRequest& request, const SearchEffort& effort);

}  // namespace lowtide::strategy::search
