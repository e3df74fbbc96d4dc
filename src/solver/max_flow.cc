#include "solver/max_flow.h"

#include <algorithm>

namespace lowtide::solver {

void MaxFlow::add_edge(int from, int to, std::int64_t capacity) {
  edges_of_[from].push_back(static_cast<int>(edges_.size()));
  edges_.push_back({to, capacity});
  edges_of_[to].push_back(static_cast<int>(edges_.size()));
  edges_.push_back({from, 0});
}

std::int64_t MaxFlow::run(int source, int sink, std::int64_t most_steps) {
  steps_left_ = most_steps;
  std::int64_t flow = 0;
  while (steps_left_ > 0 && find_levels(source, sink)) {
    next_.assign(edges_of_.size(), 0);
    while (const std::int64_t pushed = push_path(source, sink)) flow += pushed;
  }
  return flow;
}

bool MaxFlow::find_levels(int source, int sink) {
  level_.assign(edges_of_.size(), -1);
  level_[source] = 0;
  std::vector<int> queue{source};
  for (std::size_t at = 0; at < queue.size(); ++at) {
    steps_left_ -= static_cast<std::int64_t>(edges_of_[queue[at]].size());
    for (int e : edges_of_[queue[at]]) {
      if (edges_[e].left <= 0 || level_[edges_[e].to] >= 0) continue;
      level_[edges_[e].to] = level_[queue[at]] + 1;
      queue.push_back(edges_[e].to);
    }
  }
  return level_[sink] >= 0;
}

/// One path of the level graph, without recursion: paths are as long as networks are deep.
std::int64_t MaxFlow::push_path(int source, int sink) {
  path_.clear();
  int node = source;
  while (node != sink) {
    if (--steps_left_ < 0) return 0;
    if (next_[node] == edges_of_[node].size()) {
      if (path_.empty()) return 0;
      node = edges_[path_.back() ^ 1].to;
      path_.pop_back();
      ++next_[node];
      continue;
    }
    const int e = edges_of_[node][next_[node]];
    if (edges_[e].left <= 0 || level_[edges_[e].to] != level_[node] + 1) {
      ++next_[node];
      continue;
    }
    path_.push_back(e);
    node = edges_[e].to;
  }
  std::int64_t amount = kUnlimited;
  for (int e : path_) amount = std::min(amount, edges_[e].left);
  for (int e : path_) {
    edges_[e].left -= amount;
    edges_[e ^ 1].left += amount;
  }
  return amount;
}

std::vector<bool> MaxFlow::sink_side(int sink) const {
  std::vector<bool> side(edges_of_.size());
  side[sink] = true;
  std::vector<int> todo{sink};
  while (!todo.empty()) {
    const int node = todo.back();
    todo.pop_back();
    for (int e : edges_of_[node]) {
      const int other = edges_[e].to;
      if (side[other] || edges_[e ^ 1].left <= 0) continue;
      side[other] = true;
      todo.push_back(other);
    }
  }
  return side;
}

}  // namespace lowtide::solver
