#include "parallel/cluster/collectives.h"

namespace lowtide::parallel {

double all_gather_seconds(const Cluster& cluster, const Group& group, double bytes) {
  if (group.ranks <= 1) return 0;
  const bool leaves = group.nodes > 1;
  const Link& slowest = leaves ? cluster.between_nodes : cluster.within_node;
  const double share = static_cast<double>(group.ranks - 1) / group.ranks;
  const double hops_within = group.ranks - group.nodes, hops_between = group.nodes - 1;
  return share * bytes / slowest.bytes_per_second +
         hops_within * cluster.within_node.seconds_per_message +
         hops_between * cluster.between_nodes.seconds_per_message;
}

double reduce_scatter_seconds(const Cluster& cluster, const Group& group, double bytes) {
  return all_gather_seconds(cluster, group, bytes);
}

double all_reduce_seconds(const Cluster& cluster, const Group& group, double bytes) {
  return reduce_scatter_seconds(cluster, group, bytes) + all_gather_seconds(cluster, group, bytes);
}

double send_seconds(const Link& link, double bytes) {
  return link.seconds_per_message + bytes / link.bytes_per_second;
}

}  // namespace lowtide::parallel
