#include <algorithm>
#include <utility>

#include "strategy/checkpointing.h"
#include "strategy/checkpoints/binomial.h"

namespace lowtide::strategy {
namespace {

/// The forward pass as a chain: segment j begins at points[j - 1] and needs *state* j, the values
/// that cross that point; state 0 contains the values that exist before the first stage.
class Chain {
 public:
  Chain(const remat::StageGraph& graph, int forward_end, const std::vector<Cut>& points)
      : graph_(graph),
        forward_end_(forward_end),
        states_(points.size() + 1),
        state_of_(graph.num_values(), kNone),
        begins_{0} {
    for (const Cut& point : points) begins_.push_back(point.stage);
    begins_.push_back(forward_end);
    for (int j = 1; j <= last(); ++j) state_of_[points[j - 1].value] = j;
    for (int v = 0; v < graph.num_values(); ++v) add_crossing(v);
  }

  int last() const { return static_cast<int>(states_.size()) - 1; }
  int begin(int segment) const { return begins_[segment]; }
  int end(int segment) const { return begins_[segment + 1]; }
  const std::vector<int>& state(int j) const { return states_[j]; }
  /// The segment whose backward part needs the value: the segment that it enters, else the one that
  /// makes it.
  int segment_of(int value) const {
    if (state_of_[value] != kNone) return state_of_[value];
    const auto after = std::ranges::upper_bound(begins_, graph_.value(value).producer);
    return static_cast<int>(after - begins_.begin()) - 1;
  }

 private:
  void add_crossing(int v) {
    const remat::StageValue& value = graph_.value(v);
    const auto readers_end = std::ranges::lower_bound(value.readers, forward_end_);
    if (readers_end == value.readers.begin()) return;
    for (int j = 1; j <= last() && begins_[j] <= *(readers_end - 1); ++j) {
      if (value.producer < begins_[j]) states_[j].push_back(v);
    }
  }

  const remat::StageGraph& graph_;
  int forward_end_;
  std::vector<std::vector<int>> states_;
  std::vector<int> state_of_;  // per value: the state that has it as the large value
  std::vector<int> begins_;
};

/// Reverses the chain with some slots for states in addition to state 0. Each time a segment is
/// needed, divides the path from the nearest stored state as the binomial schedule says.
class Reversal {
 public:
  Reversal(const remat::StageGraph& graph, const Chain& chain, int forward_end, int slots)
      : graph_(graph),
        chain_(chain),
        forward_end_(forward_end),
        slots_(slots),
        here_(graph.num_values()),
        stored_{0} {
    here_ = kept_in_any_case(graph, forward_end, std::move(here_));
  }

  std::vector<OpId> order() {
    for (int i = 0; i < forward_end_; ++i) order_.push_back(graph_.stage(i).op);
    store_on_the_way(chain_.last(), [&](int j) { keep(chain_.state(j)); });
    keep(chain_.state(chain_.last()));
    for (int i = chain_.begin(chain_.last()); i < forward_end_; ++i) keep(graph_.stage(i).outputs);
    for (int t = forward_end_; t < graph_.end(); ++t) {
      for (int j = neediest(t); j != kNone; j = neediest(t)) prepare(j, t);
      order_.push_back(graph_.stage(t).op);
    }
    return std::move(order_);
  }

 private:
  void keep(const std::vector<int>& values) {
    for (int v : values) here_[v] = true;
  }

  /// The latest segment of which an input of the stage is missing.
  int neediest(int t) const {
    int segment = kNone;
    for (int v : graph_.stage(t).inputs) {
      if (!here_[v]) segment = std::max(segment, chain_.segment_of(v));
    }
    return segment;
  }

  template <typename Store>
  void store_on_the_way(int target, Store store) {
    while (true) {
      const int from = stored_.back();
      const int used = static_cast<int>(stored_.size()) - 1;
      const int length = target - from + 1;
      const int free = slots_ - used;
      if (length < 2 || free < 1) return;
      stored_.push_back(from + checkpoints::binomial_split(length, free + 1));
      store(stored_.back());
    }
  }

  /// Makes state j and the values of segment j that the backward pass needs from stage t on.
  void prepare(int j, int t) {
    while (stored_.back() > j) stored_.pop_back();
    store_on_the_way(j, [&](int k) { make(chain_.state(k), chain_.begin(k)); });
    std::vector<int> wanted = chain_.state(j);
    for (int i = chain_.begin(j); i < chain_.end(j); ++i) {
      for (int v : graph_.stage(i).outputs) {
        if (graph_.value(v).last_reader() >= t) wanted.push_back(v);
      }
    }
    make(wanted, chain_.end(j));
  }

  /// Runs the stages before `end` that make missing `wanted` values; keeps only wanted values.
  void make(const std::vector<int>& wanted, int end) {
    std::vector<bool> missing(graph_.num_values());
    const auto want = [&](const std::vector<int>& values) {
      for (int v : values) missing[v] = !here_[v];
    };
    want(wanted);
    std::vector<OpId> reruns;
    for (int i = end - 1; i >= 0; --i) {
      const remat::Stage& stage = graph_.stage(i);
      if (std::ranges::none_of(stage.outputs, [&](int v) { return missing[v]; })) continue;
      reruns.push_back(stage.op);
      want(stage.inputs);
    }
    order_.insert(order_.end(), reruns.rbegin(), reruns.rend());
    keep(wanted);
  }

  const remat::StageGraph& graph_;
  const Chain& chain_;
  int forward_end_;
  int slots_;
  std::vector<bool> here_;
  std::vector<int> stored_;  // states, ascending
  std::vector<OpId> order_;
};

Decision try_slots(const CutGraph& cut, Trials& trials, const Control& control) {
  const Chain chain(cut.graph, cut.forward_end, cut.points);
  for (int slots = chain.last(); slots > 0; slots -= 1 + slots / 8) {
    if (control.should_stop()) return trials.stopped();
    trials.offer(Reversal(cut.graph, chain, cut.forward_end, slots).order());
  }
  return trials.decision("binomial checkpointing");
}

Decision decide_by_revolve(const PlanRequest& request) {
  return decide_at_articulation_points(request, [&](const CutGraph& cut, Trials& trials) {
    return try_slots(cut, trials, request.control);
  });
}

}  // namespace

Strategy revolve_strategy() {
  return {.name = "revolve",
          .summary = "stores states of a chain and runs it again from the nearest, binomially",
          .guarantee = "on a chain of equal layers, the fewest reruns for its number of stored "
                       "states",
          .paper = "Griewank, Walther: Algorithm 799, ACM Transactions on Mathematical Software, "
                   "2000",
          .options = {},
          .decide = decide_by_revolve};
}

}  // namespace lowtide::strategy
