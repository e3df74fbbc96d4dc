#include "profile/heavy_ops.h"

#include <map>
#include <string>
#include <utility>

#include "cost/profile.h"

namespace lowtide::profile {

std::vector<OpId> heavy_ops(const Graph& graph) {
  constexpr double kShare = 0.05;
  std::vector<std::pair<std::string, OpId>> first;
  std::map<std::string, double> costs;
  double all = 0;
  for (OpId id = 0; id < graph.num_ops(); ++id) {
    const double cost = graph.op(id).cost;
    if (cost <= 0) continue;
    std::string key = cost::profile_key(graph, id);
    const auto [entry, is_new] = costs.try_emplace(key, 0.0);
    entry->second += cost;
    all += cost;
    if (is_new) first.emplace_back(std::move(key), id);
  }
  std::vector<OpId> heavy;
  for (const auto& [key, id] : first) {
    if (costs.at(key) >= kShare * all) heavy.push_back(id);
  }
  return heavy;
}

}  // namespace lowtide::profile
