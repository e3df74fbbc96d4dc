#include "parallel/cluster/cluster.h"

namespace lowtide::parallel {

int Cluster::ranks() const {
  int nodes = 0;
  for (const NodeKind& kind : kinds) nodes += kind.nodes;
  return nodes * devices_per_node;
}

std::vector<int> Cluster::kinds_of(int first, int count) const {
  std::vector<int> found;
  int begin = 0;
  for (int k = 0; k < static_cast<int>(kinds.size()); ++k) {
    const int end = begin + kinds[static_cast<std::size_t>(k)].nodes * devices_per_node;
    if (first < end && begin < first + count) found.push_back(k);
    begin = end;
  }
  return found;
}

Group group_of(const Cluster& cluster, int first, int count, int stride) {
  Group group{.ranks = count, .nodes = 0};
  int last_node = -1;
  for (int i = 0; i < count; ++i) {
    const int node = (first + i * stride) / cluster.devices_per_node;
    if (node != last_node) ++group.nodes;
    last_node = node;
  }
  return group;
}

}  // namespace lowtide::parallel
