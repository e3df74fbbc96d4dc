#pragma once

#include "parallel/cluster/cluster.h"

namespace lowtide::testing {

/// Nodes of A100s, of which so many operations per second are reached.
inline parallel::Cluster a100_cluster(int nodes, int devices_per_node, double efficiency = 1) {
  parallel::Cluster cluster;
  cluster.devices_per_node = devices_per_node;
  cluster.within_node = {.bytes_per_second = 3e11, .seconds_per_message = 5e-6};
  cluster.between_nodes = {.bytes_per_second = 2.5e10, .seconds_per_message = 1e-5};
  cost::DeviceRates device = cost::find_device("a100");
  for (auto& [dtype, rate] : device.flops_per_second) rate *= efficiency;
  cluster.kinds = {{.nodes = nodes,
                    .device = device,
                    .memory_bytes = device.memory_bytes,
                    .peak_share = efficiency}};
  return cluster;
}

}  // namespace lowtide::testing
