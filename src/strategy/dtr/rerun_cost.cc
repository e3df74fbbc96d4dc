#include "strategy/dtr/rerun_cost.h"

#include <algorithm>
#include <numeric>

namespace lowtide::strategy::dtr {
namespace {

double own_cost(const remat::StageGraph& graph, int value) {
  return graph.stage(graph.value(value).producer).cost;
}

template <typename Visit>
void for_each_parent(const remat::StageGraph& graph, int value, Visit visit) {
  for (int parent : graph.stage(graph.value(value).producer).inputs) visit(parent);
}

template <typename Visit>
void for_each_child(const remat::StageGraph& graph, int value, Visit visit) {
  for (int reader : graph.value(value).readers) {
    for (int child : graph.stage(reader).outputs) visit(child);
  }
}

class OwnCost final : public RerunCost {
 public:
  explicit OwnCost(const remat::StageGraph& graph) : graph_(graph) {}
  void evicted(int) override {}
  void made(int) override {}
  double of(int value) override { return own_cost(graph_, value); }

 private:
  const remat::StageGraph& graph_;
};

/// Disjoint sets of evicted values with the sum of their costs. A value that is made again
/// subtracts its cost from its set and leaves for a new one; the set is not split.
class ClassCost final : public RerunCost {
 public:
  explicit ClassCost(const remat::StageGraph& graph)
      : graph_(graph),
        is_evicted_(graph.num_values()),
        member_(graph.num_values()),
        parent_(graph.num_values()),
        sum_(graph.num_values()) {
    std::iota(member_.begin(), member_.end(), 0);
    std::iota(parent_.begin(), parent_.end(), 0);
  }

  void evicted(int value) override {
    is_evicted_[value] = true;
    sum_[root(value)] += own_cost(graph_, value);
    for_each_neighbour(value, [&](int other) { unite(root(value), root(other)); });
  }

  void made(int value) override {
    is_evicted_[value] = false;
    sum_[root(value)] -= own_cost(graph_, value);
    member_[value] = static_cast<int>(parent_.size());
    parent_.push_back(member_[value]);
    sum_.push_back(0);
  }

  double of(int value) override {
    seen_.clear();
    for_each_neighbour(value, [&](int other) { seen_.push_back(root(other)); });
    std::ranges::sort(seen_);
    double cost = own_cost(graph_, value);
    int previous = kNone;
    for (int set : seen_) {
      if (set != previous) cost += sum_[set];
      previous = set;
    }
    return cost;
  }

 private:
  template <typename Visit>
  void for_each_neighbour(int value, Visit visit) {
    const auto visit_evicted = [&](int other) {
      if (is_evicted_[other]) visit(other);
    };
    for_each_parent(graph_, value, visit_evicted);
    for_each_child(graph_, value, visit_evicted);
  }

  int root(int value) {
    int node = member_[value];
    while (parent_[node] != node) node = parent_[node] = parent_[parent_[node]];
    return node;
  }

  void unite(int a, int b) {
    if (a == b) return;
    parent_[b] = a;
    sum_[a] += sum_[b];
  }

  const remat::StageGraph& graph_;
  std::vector<bool> is_evicted_;
  std::vector<int> member_;  // per value: its element
  std::vector<int> parent_;  // per element
  std::vector<double> sum_;  // per root
  std::vector<int> seen_;
};

/// The exact neighbourhood, remembered until something in it changes.
class PathCost final : public RerunCost {
 public:
  PathCost(const remat::StageGraph& graph, bool descendants)
      : graph_(graph),
        descendants_(descendants),
        is_evicted_(graph.num_values()),
        known_(graph.num_values(), kUnknown),
        visited_(graph.num_values()) {}

  void evicted(int value) override {
    is_evicted_[value] = true;
    forget_around(value);
  }

  void made(int value) override {
    forget_around(value);
    is_evicted_[value] = false;
    known_[value] = kUnknown;
  }

  double of(int value) override {
    if (known_[value] != kUnknown) return known_[value];
    double cost = own_cost(graph_, value);
    const auto add = [&](int other) {
      if (is_evicted_[other]) cost += own_cost(graph_, other);
    };
    walk(value, true, add);
    if (descendants_) walk(value, false, add);
    return known_[value] = cost;
  }

 private:
  static constexpr double kUnknown = -1;

  /// Values below `value` count it; so do values above it if descendants count.
  void forget_around(int value) {
    const auto forget = [&](int other) { known_[other] = kUnknown; };
    walk(value, false, forget);
    if (descendants_) walk(value, true, forget);
  }

  /// Visits the evicted values reachable upwards or downwards from the value, and the first value
  /// in memory on each path.
  template <typename Visit>
  void walk(int value, bool up, Visit visit) {
    ++round_;
    stack_.assign(1, value);
    const auto reach = [&](int other) {
      if (visited_[other] == round_) return;
      visited_[other] = round_;
      visit(other);
      if (is_evicted_[other]) stack_.push_back(other);
    };
    while (!stack_.empty()) {
      const int next = stack_.back();
      stack_.pop_back();
      if (up) {
        for_each_parent(graph_, next, reach);
      } else {
        for_each_child(graph_, next, reach);
      }
    }
  }

  const remat::StageGraph& graph_;
  bool descendants_;
  std::vector<bool> is_evicted_;
  std::vector<double> known_;
  std::vector<std::int64_t> visited_;
  std::int64_t round_ = 0;
  std::vector<int> stack_;
};

}  // namespace

std::unique_ptr<RerunCost> make_rerun_cost(const remat::StageGraph& graph,
                                           Neighbourhood neighbourhood) {
  switch (neighbourhood) {
    case Neighbourhood::classes: return std::make_unique<ClassCost>(graph);
    case Neighbourhood::full: return std::make_unique<PathCost>(graph, true);
    case Neighbourhood::ancestors: return std::make_unique<PathCost>(graph, false);
    case Neighbourhood::none: break;
  }
  return std::make_unique<OwnCost>(graph);
}

}  // namespace lowtide::strategy::dtr
