#include "bounds/completion.h"

#include <algorithm>
#include <array>

namespace lowtide::bounds {
namespace {

/// There are no more clusters than values.
using Subsets = std::array<std::uint16_t, ValueSet::kMost>;

}  // namespace

CompletionBound::CompletionBound(const remat::StageGraph& graph, const PriceBound& bound)
    : places_(graph.num_values()), room_price_(graph.num_stages() + 1) {
  const std::vector<std::vector<BoundOp>> clusters = bound.clusters();
  for (const std::vector<BoundOp>& ops : clusters) {
    completions_.push_back(Cluster(graph, ops).completions(bound.prices(), graph.num_stages()));
  }
  place_values(graph, bound, clusters);
  for (int t = graph.end(); t >= 0; --t) {
    room_price_[t] = room_price_[t + 1] + bound.prices().each()[t] * bound.room()[t];
  }
}

/// From the last op back, so that the outputs of a glued value's reader are placed before it.
void CompletionBound::place_values(const remat::StageGraph& graph, const PriceBound& bound,
                                   const std::vector<std::vector<BoundOp>>& clusters) {
  for (std::size_t c = 0; c < clusters.size(); ++c) {
    int bit = 0;
    for (const BoundOp& op : clusters[c]) {
      for (int v : op.outputs) {
        places_[v] = {{static_cast<int>(c), static_cast<std::uint16_t>(1u << bit++)}};
      }
    }
  }
  std::vector<bool> is_glued(graph.num_values());
  for (int v : bound.glued()) is_glued[v] = true;
  for (int i = graph.end(); i >= 0; --i) {
    for (int v : graph.stage(i).outputs) {
      if (!is_glued[v]) continue;
      for (int made : graph.stage(graph.value(v).last_reader()).outputs) {
        places_[v].insert(places_[v].end(), places_[made].begin(), places_[made].end());
      }
    }
  }
}

double CompletionBound::least_cost(int stage, const ValueSet& live) const {
  Subsets there;
  std::fill_n(there.begin(), completions_.size(), std::uint16_t{0});
  live.for_each([&](int v) {
    for (const Place& place : places_[v]) there[place.cluster] |= place.bits;
  });
  double cost = -room_price_[stage];
  for (std::size_t c = 0; c < completions_.size(); ++c) {
    const Cluster::Completion& rest = completions_[c][stage];
    cost += rest.least[there[c] & rest.open];
  }
  return cost;
}

}  // namespace lowtide::bounds
