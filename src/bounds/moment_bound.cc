#include "bounds/moment_bound.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "bounds/cost.h"
#include "solver/max_flow.h"

namespace lowtide::bounds {
namespace {

/// Held bytes and the cost of what is made again: what a choice costs is a line over the price.
struct Line {
  double cost = 0;
  double bytes = 0;
  double at(double price) const { return cost + price * bytes; }
};

/// The network: a wanted value is held over the moment, or its op runs again and wants its inputs.
///
///     source ──∞──> wanted value ──price x bytes──> its op ──cost──> sink
///                        ^────────────∞───────────────┘ (inputs)
class Network {
 public:
  Network(const remat::StageGraph& graph, int stage)
      : graph_(graph), stage_(stage), value_node_(graph.num_values()), op_node_(graph.end()) {
    for (int v = 0; v < graph.num_values(); ++v) {
      if (graph.value(v).last_reader() > stage && is_choice(v)) want(v);
    }
    first_wanted_ = values_.size();
    for (std::size_t k = 0; k < values_.size(); ++k) want_inputs(graph.value(values_[k]).producer);
  }

  /// The cheapest choice at the price, and its cost, rounded down.
  std::pair<Line, double> cheapest(double price) const {
    // Rounding capacities down lowers the cut by at most one unit for each edge, one part in 2^50
    // of the cost of every op once.
    const double scale = static_cast<double>(solver::MaxFlow::kUnlimited) / graph_.required_cost();
    const auto capacity = [&](double cost) {
      const auto most = static_cast<double>(solver::MaxFlow::most_of(nodes_));
      return static_cast<std::int64_t>(std::min(most, std::floor(scale * cost)));
    };
    solver::MaxFlow flow(nodes_);
    for (std::size_t k = 0; k < values_.size(); ++k) {
      const int v = values_[k];
      const int node = value_node_[v];
      if (k < first_wanted_) flow.add_edge(kSource, node, solver::MaxFlow::kUnlimited);
      flow.add_edge(node, op_node_[graph_.value(v).producer], capacity(price * bytes(v)));
    }
    for (int i : ops_) {
      flow.add_edge(op_node_[i], kSink,
                    may_rerun(i) ? capacity(graph_.stage(i).cost) : solver::MaxFlow::kUnlimited);
      if (!may_rerun(i)) continue;
      for (int v : graph_.stage(i).inputs) {
        if (is_choice(v)) flow.add_edge(op_node_[i], value_node_[v], solver::MaxFlow::kUnlimited);
      }
    }
    const auto least = static_cast<double>(flow.run(kSource, kSink)) / scale;
    return {line_of(flow.sink_side(kSink)), least};
  }

 private:
  static constexpr int kSource = 0;
  static constexpr int kSink = 1;

  double bytes(int v) const { return static_cast<double>(graph_.value(v).bytes); }
  bool may_rerun(int i) const { return graph_.stage(i).latest > stage_; }

  /// Others are there for free after the moment: it reads or makes them, they are made later, or
  /// every plan holds them until their last reader.
  bool is_choice(int v) const {
    const remat::StageValue& value = graph_.value(v);
    return value.producer < stage_ && graph_.stage(value.producer).latest > value.producer &&
           !std::ranges::binary_search(value.readers, stage_);
  }

  void want(int v) {
    if (value_node_[v] != 0) return;
    value_node_[v] = nodes_++;
    values_.push_back(v);
  }

  void want_inputs(int i) {
    if (op_node_[i] != 0) return;
    op_node_[i] = nodes_++;
    ops_.push_back(i);
    if (!may_rerun(i)) return;
    for (int v : graph_.stage(i).inputs) {
      if (is_choice(v)) want(v);
    }
  }

  Line line_of(const std::vector<bool>& sink_side) const {
    Line line;
    for (int i : ops_) line.cost += sink_side[op_node_[i]] ? 0 : graph_.stage(i).cost;
    for (int v : values_) {
      const bool is_made_again = !sink_side[op_node_[graph_.value(v).producer]];
      if (!sink_side[value_node_[v]] && !is_made_again) line.bytes += bytes(v);
    }
    return line;
  }

  const remat::StageGraph& graph_;
  int stage_;
  int nodes_ = 2;
  std::vector<int> value_node_;   // per value: 0 when it has none
  std::vector<int> op_node_;      // per op: the same
  std::vector<int> values_;       // with a node
  std::vector<int> ops_;          // with a node
  std::size_t first_wanted_ = 0;  // so many of values_ are read by first runs after the moment
};

}  // namespace

/// The bound over the price is concave: the least of the lines of all choices, minus the price of
/// the room. Its top lies between a line with more bytes than the room and one with fewer; where
/// these two cross, either no line is lower, and this is the top, or a lower one replaces one.
MomentBound moment_bound(const remat::StageGraph& graph, const PriceBound& bound,
                         const Control& control) {
  constexpr int kMostCuts = 40;
  constexpr double kStep = 1.5;   // from a guess to where the slope turns
  constexpr double kNear = 1e-9;  // of the cost of every op once
  const std::vector<double>& prices = bound.prices().each();
  const auto highest = std::ranges::max_element(prices);
  MomentBound best{graph.required_cost()};
  if (*highest <= 0 || graph.required_cost() <= 0) return best;
  best.stage = static_cast<int>(highest - prices.begin());
  best.price = *highest;
  const Network network(graph, best.stage);
  const double room = bound.room()[best.stage];
  double price = best.price;
  std::optional<Line> larger, smaller;
  for (int cut = 0; cut < kMostCuts && !control.should_stop(); ++cut) {
    const auto [line, least] = network.cheapest(price);
    const double value = graph.required_cost() + least - price * room;
    if (value > best.value) best = {value, price, best.stage};
    const bool crosses = larger && smaller;
    if (crosses && line.at(price) >= larger->at(price) - kNear * graph.required_cost()) break;
    (line.bytes > room ? larger : smaller) = line;
    if (larger && smaller) {
      price = (smaller->cost - larger->cost) / (larger->bytes - smaller->bytes);
    } else {
      price = larger ? price * kStep : price / kStep;
    }
  }
  best.value = std::max(graph.required_cost(), best.value * (1 - kRounding));
  return best;
}

}  // namespace lowtide::bounds
