#include "ordering/list_orders.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace lowtide::ordering {
namespace {

/// The candidate that runs next; the first of equals.
template <typename Growth>
std::size_t least_of(const std::vector<int>& ready, Growth growth) {
  std::size_t best = 0;
  Bytes least = growth(ready[0]);
  for (std::size_t k = 1; k < ready.size(); ++k) {
    const Bytes here = growth(ready[k]);
    if (std::pair(here, ready[k]) < std::pair(least, ready[best])) {
      best = k;
      least = here;
    }
  }
  return best;
}

class Forward {
 public:
  Forward(const remat::StageGraph& graph, const Precedence& precedence)
      : graph_(graph), precedence_(precedence), missing_(graph.end()) {
    for (const remat::StageValue& value : graph.values()) {
      left_.push_back(static_cast<int>(value.readers.size()));
    }
    for (int i = 0; i < graph.end(); ++i) {
      missing_[i] = static_cast<int>(precedence.before(i).size());
      if (missing_[i] == 0) ready_.push_back(i);
    }
  }

  /// `growth_matters`: also compare candidates that leave more bytes live than before.
  std::vector<int> order(bool growth_matters) {
    return order_by(
        [&](int i) { return growth_matters ? growth(i) : std::min<Bytes>(growth(i), 1); });
  }

  /// Of the stages that may run, the one with the smallest key runs next; the first of equals.
  template <typename Key>
  std::vector<int> order_by(Key key) {
    while (!ready_.empty()) run(least_of(ready_, key));
    return std::move(order_);
  }

 private:
  Bytes growth(int i) const {
    Bytes bytes = 0;
    for (int v : graph_.stage(i).outputs) {
      if (!graph_.value(v).readers.empty()) bytes += graph_.value(v).bytes;
    }
    for (int v : graph_.stage(i).inputs) {
      if (left_[v] == 1) bytes -= graph_.value(v).bytes;
    }
    return bytes;
  }

  void run(std::size_t at) {
    const int i = ready_[at];
    ready_.erase(ready_.begin() + static_cast<std::ptrdiff_t>(at));
    order_.push_back(i);
    for (int v : graph_.stage(i).inputs) --left_[v];
    for (int later : precedence_.after(i)) {
      if (--missing_[later] == 0) ready_.push_back(later);
    }
  }

  const remat::StageGraph& graph_;
  const Precedence& precedence_;
  std::vector<int> left_;     // per value: readers that have not run
  std::vector<int> missing_;  // per stage: number of predecessors that have not run
  std::vector<int> ready_;
  std::vector<int> order_;
};

class Backward {
 public:
  Backward(const remat::StageGraph& graph, const Precedence& precedence)
      : graph_(graph), precedence_(precedence), missing_(graph.end()), live_(graph.num_values()) {
    for (int v : graph.stage(graph.end()).inputs) live_[v] = true;
    for (int i = 0; i < graph.end(); ++i) {
      missing_[i] = static_cast<int>(precedence.after(i).size());
      if (missing_[i] == 0) ready_.push_back(i);
    }
  }

  std::vector<int> order() {
    while (!ready_.empty()) {
      run(least_of(ready_, [&](int i) { return growth(i); }));
    }
    std::ranges::reverse(order_);
    return std::move(order_);
  }

 private:
  Bytes growth(int i) const {
    Bytes bytes = 0;
    for (int v : graph_.stage(i).inputs) bytes += live_[v] ? 0 : graph_.value(v).bytes;
    for (int v : graph_.stage(i).outputs) bytes -= live_[v] ? graph_.value(v).bytes : 0;
    return bytes;
  }

  void run(std::size_t at) {
    const int i = ready_[at];
    ready_.erase(ready_.begin() + static_cast<std::ptrdiff_t>(at));
    order_.push_back(i);
    for (int v : graph_.stage(i).inputs) live_[v] = true;
    for (int v : graph_.stage(i).outputs) live_[v] = false;
    for (int earlier : precedence_.before(i)) {
      if (--missing_[earlier] == 0) ready_.push_back(earlier);
    }
  }

  const remat::StageGraph& graph_;
  const Precedence& precedence_;
  std::vector<int> missing_;  // per stage: number of successors that have not run
  std::vector<bool> live_;    // per value
  std::vector<int> ready_;
  std::vector<int> order_;
};

}  // namespace

std::vector<int> least_growth_order(const remat::StageGraph& graph, const Precedence& precedence) {
  return Forward(graph, precedence).order(true);
}

std::vector<int> eager_order(const remat::StageGraph& graph, const Precedence& precedence) {
  return Forward(graph, precedence).order(false);
}

std::vector<int> with_early_sinks(const remat::StageGraph& graph, const Precedence& precedence,
                                  std::span<const int> order) {
  std::vector<Bytes> place(graph.end());
  for (std::size_t k = 0; k < order.size(); ++k) place[order[k]] = static_cast<Bytes>(k);
  const auto takes_nothing = [&](int v) {
    return graph.value(v).readers.empty() && graph.value(v).bytes == 0;
  };
  return Forward(graph, precedence).order_by([&](int i) {
    const remat::Stage& stage = graph.stage(i);
    const bool is_sink = stage.workspace == 0 && std::ranges::all_of(stage.outputs, takes_nothing);
    return is_sink ? Bytes{-1} : place[i];
  });
}

std::vector<int> backward_order(const remat::StageGraph& graph, const Precedence& precedence) {
  return Backward(graph, precedence).order();
}

}  // namespace lowtide::ordering
