#include "certify/moment_cost.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <unordered_map>
#include <vector>

#include "solver/max_flow.h"

namespace lowtide::certify {
namespace {

using solver::MaxFlow;

constexpr int kSource = 0;
constexpr int kSink = 1;
/// A certificate may be a stranger's: the flow takes time in proportion to its size. Where it is
/// not over then, less is proved. Those of training steps take fewer than a tenth of it.
constexpr std::int64_t kStepsPerNode = 10'000;

class Cut {
 public:
  Cut(const Graph& graph, const Stages& stages, const Certificate::Cluster& cluster, int stage,
      double price)
      : graph_(graph),
        stages_(stages),
        cluster_(cluster),
        stage_(stage),
        price_(price),
        scale_(static_cast<double>(MaxFlow::kUnlimited) / stages.cost),
        flow_(2 + 2 * count_values()) {
    for (const Certificate::Rerun& rerun : cluster) {
      const int node = nodes_++;
      for (TensorId value : rerun.values) {
        if (is_choice(rerun, value)) nodes_of_[value] = {nodes_++, node};
      }
    }
  }

  double least() {
    for (const Certificate::Rerun& rerun : cluster_) add(rerun);
    constexpr double kRounding = 8 * std::numeric_limits<double>::epsilon();
    return static_cast<double>(flow_.run(kSource, kSink, kStepsPerNode * nodes_)) / scale_ *
           (1 - kRounding);
  }

 private:
  struct Nodes {
    int value, rerun;
  };

  int count_values() const {
    std::size_t count = 0;
    for (const Certificate::Rerun& rerun : cluster_) count += rerun.values.size();
    return static_cast<int>(count);
  }

  /// A value that the stage reads is there anyway, as is one that is made at it or later.
  bool is_choice(const Certificate::Rerun& rerun, TensorId value) const {
    return stages_.of_op[rerun.ops.back()] < stage_ &&
           !std::ranges::binary_search(stages_.readers[value], stage_);
  }

  std::int64_t capacity(double cost) const {
    const auto most = static_cast<double>(MaxFlow::most_of(nodes_));
    return static_cast<std::int64_t>(std::min(most, std::floor(scale_ * cost)));
  }

  void add(const Certificate::Rerun& rerun) {
    int node = kNone;
    for (TensorId value : rerun.values) {
      const auto found = nodes_of_.find(value);
      if (found == nodes_of_.end()) continue;
      node = found->second.rerun;
      const double held = price_ * static_cast<double>(graph_.tensor(value).bytes);
      flow_.add_edge(found->second.value, node, capacity(held));
      const std::vector<int>& readers = stages_.readers[value];
      const bool is_read = !readers.empty() && readers.back() > stage_;
      if (is_read) flow_.add_edge(kSource, found->second.value, MaxFlow::kUnlimited);
    }
    if (node == kNone) return;
    double cost = 0;
    bool may_rerun = true;
    for (OpId op : rerun.ops) {
      cost += graph_.op(op).cost;
      may_rerun = may_rerun && stages_.last_rerun[stages_.of_op[op]] > stage_;
    }
    flow_.add_edge(node, kSink, may_rerun ? capacity(cost) : MaxFlow::kUnlimited);
    for (TensorId input : stages_.reads[stages_.of_op[rerun.ops.front()]]) {
      const auto found = nodes_of_.find(input);
      if (found == nodes_of_.end() || !may_rerun) continue;
      flow_.add_edge(node, found->second.value, MaxFlow::kUnlimited);
    }
  }

  const Graph& graph_;
  const Stages& stages_;
  const Certificate::Cluster& cluster_;
  int stage_;
  double price_;
  double scale_;  // units of capacity for a unit of cost: the cost of all ops is the most
  MaxFlow flow_;
  int nodes_ = 2;
  std::unordered_map<TensorId, Nodes> nodes_of_;  // of values that are a choice
};

}  // namespace

double moment_cost(const Graph& graph, const Stages& stages, const Certificate::Cluster& cluster,
                   int stage, double price) {
  if (stages.cost <= 0) return 0;
  return Cut(graph, stages, cluster, stage, price).least();
}

}  // namespace lowtide::certify
