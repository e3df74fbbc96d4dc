#include "certify/cluster_cost.h"

#include <algorithm>
#include <limits>

namespace lowtide::certify {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

}  // namespace

ClusterCost::ClusterCost(const Graph& graph, const Stages& stages,
                         const Certificate::Cluster& cluster)
    : graph_(graph), stages_(stages), bytes_{0} {
  for (const Certificate::Rerun& rerun : cluster) {
    values_.insert(values_.end(), rerun.values.begin(), rerun.values.end());
  }
  for (TensorId value : values_) {
    const std::size_t half = bytes_.size();
    for (std::size_t set = 0; set < half; ++set) {
      bytes_.push_back(bytes_[set] + static_cast<double>(graph.tensor(value).bytes));
    }
  }
  for (const Certificate::Rerun& rerun : cluster) {
    const int first = stages.of_op[rerun.ops.back()];
    Maker maker{set_of(stages.reads[stages.of_op[rerun.ops.front()]]), set_of(rerun.values), 0,
                first, stages.end()};
    ops_ += rerun.ops.size();
    for (OpId op : rerun.ops) {
      maker.cost += graph.op(op).cost;
      maker.last = std::min(maker.last, stages.last_rerun[stages.of_op[op]]);
    }
    makers_.push_back(maker);
  }
  std::ranges::sort(makers_, {}, &Maker::first);
  list_visits();
}

ClusterCost::Set ClusterCost::set_of(const std::vector<TensorId>& storages) const {
  Set set = 0;
  for (std::size_t bit = 0; bit < values_.size(); ++bit) {
    if (std::ranges::find(storages, values_[bit]) != storages.end()) set |= Set{1} << bit;
  }
  return set;
}

void ClusterCost::list_visits() {
  for (const Maker& maker : makers_) visits_.insert(visits_.end(), {maker.first, maker.last});
  for (TensorId value : values_) {
    const std::vector<int>& readers = stages_.readers[value];
    visits_.insert(visits_.end(), readers.begin(), readers.end());
  }
  std::ranges::sort(visits_);
  const auto repeated = std::ranges::unique(visits_);
  visits_.erase(repeated.begin(), repeated.end());
}

double ClusterCost::least(const PriceSums& prices) {
  to_go_.assign(bytes_.size(), 0);
  for (std::size_t k = visits_.size(); k-- > 0;) {
    const int stage = visits_[k];
    before_first_run(stage, prices.at(stage));
    before_choices(stage);
    if (k == 0) break;
    const int begin = visits_[k - 1] + 1;
    const double price = prices.over(begin, stage);
    if (price <= 0) continue;  // then all choices can wait until `stage`
    before_holding(price);
    before_choices(begin);
  }
  return to_go_.front() * (1 - rounding());
}

/// Values that the stage reads or makes have no price here: Stages::needs counts them.
void ClusterCost::before_first_run(int stage, double price) {
  const Set reads = set_of(stages_.reads[stage]);
  Set makes = 0;
  for (const Maker& maker : makers_) makes |= maker.first == stage ? maker.makes : 0;
  for (Set set = 0; set < to_go_.size(); ++set) {  // ascending: set | makes is updated later
    const bool can_run = (set & reads) == reads;
    to_go_[set] = can_run ? to_go_[set | makes] + price * bytes_[set & ~(reads | makes)] : kNever;
  }
}

void ClusterCost::before_holding(double price) {
  for (Set set = 0; set < to_go_.size(); ++set) to_go_[set] += price * bytes_[set];
}

/// A plan reruns in the order of ops, then drops; so the backward pass handles drops first.
void ClusterCost::before_choices(int stage) {
  const auto sets = static_cast<Set>(to_go_.size());
  for (Set bit = 1; bit < sets; bit <<= 1) {
    for (Set set = 0; set < sets; ++set) {
      if (set & bit) to_go_[set] = std::min(to_go_[set], to_go_[set ^ bit]);
    }
  }
  for (auto maker = makers_.rbegin(); maker != makers_.rend(); ++maker) {
    if (stage <= maker->first || stage > maker->last) continue;
    for (Set set = 0; set < sets; ++set) {
      if ((set & maker->needs) != maker->needs) continue;
      to_go_[set] = std::min(to_go_[set], maker->cost + to_go_[set | maker->makes]);
    }
  }
}

/// The relative error by which a sum of these non-negative terms may be too large.
double ClusterCost::rounding() const {
  const std::size_t terms = visits_.size() * (2 * makers_.size() + 8) + ops_;
  return static_cast<double>(terms) * std::numeric_limits<double>::epsilon();
}

}  // namespace lowtide::certify
