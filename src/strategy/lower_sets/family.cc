#include "strategy/lower_sets/family.h"

#include <algorithm>
#include <functional>
#include <set>

namespace lowtide::strategy::lower_sets {
namespace {

bool may_join(const remat::StageGraph& graph, const LowerSet& set, int stage) {
  return !set[stage] && std::ranges::all_of(graph.stage(stage).inputs,
                                            [&](int v) { return set[graph.value(v).producer]; });
}

void sort_by_size(std::vector<LowerSet>& family) {
  std::ranges::stable_sort(family, {},
                           [](const LowerSet& set) { return std::ranges::count(set, true); });
}

/// For each stage, the stage with all its predecessors. One that is in the set of a stage has all
/// its own there, too.
std::vector<LowerSet> with_predecessors(const remat::StageGraph& graph, int forward_end) {
  std::vector<LowerSet> sets;
  for (int stage = 0; stage < forward_end; ++stage) {
    std::vector<int> producers;
    for (int v : graph.stage(stage).inputs) producers.push_back(graph.value(v).producer);
    std::ranges::sort(producers, std::greater());
    LowerSet set(forward_end);
    for (int producer : producers) {
      if (set[producer]) continue;
      for (int i = 0; i <= producer; ++i) set[i] = set[i] || sets[producer][i];
    }
    set[stage] = true;
    sets.push_back(std::move(set));
  }
  return sets;
}

}  // namespace

std::optional<std::vector<LowerSet>> all_lower_sets(const remat::StageGraph& graph, int forward_end,
                                                    int most) {
  std::vector<LowerSet> family{LowerSet(forward_end)};
  std::set<LowerSet> known(family.begin(), family.end());
  for (std::size_t at = 0; at < family.size(); ++at) {
    for (int i = 0; i < forward_end; ++i) {
      if (!may_join(graph, family[at], i)) continue;
      LowerSet larger = family[at];
      larger[i] = true;
      if (!known.insert(larger).second) continue;
      if (static_cast<int>(family.size()) == most) return std::nullopt;
      family.push_back(std::move(larger));
    }
  }
  sort_by_size(family);
  return family;
}

std::vector<LowerSet> pruned_lower_sets(const remat::StageGraph& graph, int forward_end, int most) {
  std::vector<LowerSet> family = with_predecessors(graph, forward_end);
  family.emplace_back(forward_end);
  family.emplace_back(forward_end, true);
  sort_by_size(family);
  family.erase(std::ranges::unique(family).begin(), family.end());
  const auto count = static_cast<std::int64_t>(family.size());
  if (count <= most) return family;
  std::vector<LowerSet> thinned;
  for (std::int64_t k = 0; k < most; ++k) {
    thinned.push_back(std::move(family[static_cast<std::size_t>(k * (count - 1) / (most - 1))]));
  }
  return thinned;
}

}  // namespace lowtide::strategy::lower_sets
