#pragma once

#include <string>
#include <vector>

#include "base/bytes.h"
#include "cost/device_rates.h"

namespace lowtide::parallel {

/// The way from one device to another: a message of n bytes takes seconds_per_message +
/// n / bytes_per_second. Each device has the whole rate, in both directions at a time.
struct Link {
  double bytes_per_second = 0;
  double seconds_per_message = 0;
};

/// Nodes that are alike.
struct NodeKind {
  int nodes = 0;
  cost::DeviceRates device;  ///< rates as reached: the data sheet's, times the efficiency
  Bytes memory_bytes = 0;    ///< that a rank may use, without the reserved bytes
  double peak_share = 1;     ///< of the data sheet's operations per second: the efficiency
};

/// Devices in nodes of one size. A rank is one device; ranks are numbered node by node, and the
/// kinds are in the order of their ranks.
struct Cluster {
  std::string name;
  std::vector<NodeKind> kinds;
  int devices_per_node = 0;
  Link within_node, between_nodes;

  int ranks() const;
  /// The kinds, as indices, that the ranks first .. first + count - 1 are of, ascending.
  std::vector<int> kinds_of(int first, int count) const;
};

/// Ranks that communicate: `ranks` of them, on `nodes` nodes.
struct Group {
  int ranks = 1;
  int nodes = 1;
};

/// Of the ranks first, first + stride, ... (count of them).
Group group_of(const Cluster& cluster, int first, int count, int stride);

}  // namespace lowtide::parallel
