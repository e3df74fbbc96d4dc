#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

namespace lowtide::solver {

/// Maximum flow by Dinic's algorithm. O(nodes^2 x edges); much faster on graphs of training steps.
class MaxFlow {
 public:
  /// Too large for an edge of a minimum cut; sums of many still fit in 64 bits.
  static constexpr std::int64_t kUnlimited = std::int64_t{1} << 50;

  /// The largest capacity of so many edges whose sum is sure to fit.
  static constexpr std::int64_t most_of(std::int64_t edges) {
    return std::min(kUnlimited, (std::int64_t{1} << 60) / std::max<std::int64_t>(1, edges));
  }

  explicit MaxFlow(int nodes) : edges_of_(nodes) {}

  void add_edge(int from, int to, std::int64_t capacity);
  /// Returns the flow, which is the capacity of a minimum cut. After `most_steps` looks at an edge
  /// it returns what flows so far, which is no more than that. Call it once.
  std::int64_t run(int source, int sink,
                   std::int64_t most_steps = std::numeric_limits<std::int64_t>::max());
  /// After run(): the nodes on the sink's side of the minimum cut that is nearest to the sink.
  std::vector<bool> sink_side(int sink) const;

 private:
  struct Edge {
    int to;
    std::int64_t left;  // the reverse edge is its neighbour: edge ^ 1
  };

  bool find_levels(int source, int sink);
  std::int64_t push_path(int source, int sink);

  std::vector<Edge> edges_;
  std::vector<std::vector<int>> edges_of_;
  std::vector<int> level_;
  std::vector<std::size_t> next_;  // per node: the edge to try next
  std::vector<int> path_;
  std::int64_t steps_left_ = 0;
};

}  // namespace lowtide::solver
