#include "bounds/any_order.h"

#include <algorithm>
#include <numeric>
#include <tuple>

namespace lowtide::bounds {
namespace {

/// Per stage: how many ops of the chain must have run by its first run, itself included, and how
/// many must run then or later. The stage of the end comes after all.
struct ChainPlace {
  std::vector<int> before, after;
  int size;

  bool is_on_chain(int stage) const { return before[stage] + after[stage] > size; }
  /// Whether it must run between two neighbouring ops of the chain.
  bool is_known(int stage) const { return before[stage] + after[stage] >= size; }
  int last_slot(int stage) const { return size - after[stage]; }
};

ChainPlace place(int stages, const ordering::Precedence& precedence, const OpChain& chain) {
  ChainPlace place{std::vector<int>(stages), std::vector<int>(stages),
                   static_cast<int>(chain.size())};
  for (int k = 0; k < place.size; ++k) {
    place.before[chain[k]] = k + 1;
    place.after[chain[k]] = place.size - k;
  }
  for (int i = 0; i < stages - 1; ++i) {
    for (int p : precedence.before(i)) place.before[i] = std::max(place.before[i], place.before[p]);
  }
  for (int i = stages - 1; i-- > 0;) {
    for (int r : precedence.after(i)) place.after[i] = std::max(place.after[i], place.after[r]);
  }
  place.before[stages - 1] = place.size;
  return place;
}

/// Slot by slot, each with its chain op last; otherwise in the graph's order.
std::vector<int> stages_by_slot(const ChainPlace& place) {
  std::vector<int> order(place.before.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::sort(order, {},
                    [&](int i) { return std::tuple(place.last_slot(i), place.is_on_chain(i), i); });
  return order;
}

}  // namespace

OpChain heaviest_chain(const ordering::Precedence& precedence, std::span<const double> weights) {
  const auto n = static_cast<int>(weights.size()) - 1;  // without the end
  std::vector<double> weight(weights.begin(), weights.end() - 1);
  std::vector<int> previous(n, kNone);
  int last = kNone;
  for (int i = 0; i < n; ++i) {
    double most = 0;
    for (int p : precedence.before(i)) {
      if (weight[p] <= most) continue;
      most = weight[p];
      previous[i] = p;
    }
    weight[i] += most;
    if (last == kNone || weight[i] > weight[last]) last = i;
  }
  OpChain chain;
  for (; last != kNone; last = previous[last]) {
    if (weights[last] > 0) chain.push_back(last);
  }
  std::ranges::reverse(chain);
  return chain;
}

ChainedStages along_chain(const remat::StageGraph& graph, const ordering::Precedence& precedence,
                          const OpChain& chain) {
  const ChainPlace places = place(graph.num_stages(), precedence, chain);
  const std::vector<int> order = stages_by_slot(places);
  std::vector<int> now(order.size());  // per old stage: its new number
  for (int t = 0; t < graph.num_stages(); ++t) now[order[t]] = t;

  std::vector<remat::Stage> stages;
  std::vector<bool> on_chain;
  double views_cost = graph.required_cost();
  for (int i : order) {
    remat::Stage& stage = stages.emplace_back(graph.stage(i));
    stage.deadline = now[stage.deadline];
    stage.latest = now[stage.latest];
    views_cost -= stage.cost;
    on_chain.push_back(i == graph.end() || places.is_on_chain(i));
  }
  std::vector<remat::StageValue> values = graph.values();
  for (remat::StageValue& value : values) {
    value.producer = now[value.producer];
    std::erase_if(value.readers, [&](int i) { return !places.is_known(i); });
    for (int& reader : value.readers) reader = now[reader];
    std::ranges::sort(value.readers);
  }
  return {remat::StageGraph(std::move(stages), std::move(values), graph.resident_bytes(),
                            std::max(0.0, views_cost)),
          std::move(on_chain)};
}

}  // namespace lowtide::bounds
