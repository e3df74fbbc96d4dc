#include "strategy/search/start_events.h"

#include <algorithm>

#include "strategy/checkpointing.h"

namespace lowtide::strategy::search {
namespace {

class Unfolding {
 public:
  Unfolding(const remat::StageGraph& graph, const bounds::PriceBound::Solution& solution)
      : graph_(graph),
        decided_(solution.decided),
        here_(graph.num_values()),
        spans_(graph.num_values()),
        next_span_(graph.num_values()),
        ends_(graph.num_stages() + 1) {
    for (const bounds::Hold& hold : solution.holds) {
      spans_[hold.value].push_back({hold.begin, hold.end});
      ends_[hold.end].push_back(hold.value);
    }
    for (auto& spans : spans_) std::ranges::sort(spans);
  }

  std::optional<std::vector<remat::Event>> events() {
    for (int t = 0; t < graph_.num_stages(); ++t) {
      run(t, t);
      if (cost_ > graph_.required_cost()) return std::nullopt;
      for (int v : touched_) drop_unless_held(v, t + 1);
      for (int v : ends_[t + 1]) drop_unless_held(v, t + 1);
      touched_.clear();
    }
    std::ranges::sort(events_);
    return std::move(events_);
  }

 private:
  using Span = std::pair<int, int>;

  void run(int op, int t) {
    for (int v : graph_.stage(op).inputs) {
      touched_.push_back(v);
      const int producer = graph_.value(v).producer;
      if (here_[v] || !graph_.may_rerun(producer, t)) continue;
      events_.push_back({t, producer});
      cost_ += graph_.stage(producer).cost;
      run(producer, t);
    }
    for (int v : graph_.stage(op).outputs) {
      touched_.push_back(v);
      here_[v] = true;
    }
  }

  void drop_unless_held(int v, int t) {
    if (!decided_[v]) return;
    const std::vector<Span>& spans = spans_[v];
    std::size_t& next = next_span_[v];
    while (next < spans.size() && spans[next].second <= t) ++next;
    here_[v] = here_[v] && next < spans.size() && spans[next].first <= t;
  }

  const remat::StageGraph& graph_;
  const std::vector<bool>& decided_;
  std::vector<bool> here_;                // per value
  std::vector<std::vector<Span>> spans_;  // per value: stages over which it is held
  std::vector<std::size_t> next_span_;
  std::vector<std::vector<int>> ends_;  // per stage: values with a span that ends there
  std::vector<int> touched_;
  std::vector<remat::Event> events_;
  double cost_ = 0;  // of the events
};

}  // namespace

std::optional<std::vector<remat::Event>> events_of(const remat::StageGraph& graph,
                                                   const bounds::PriceBound::Solution& solution) {
  return Unfolding(graph, solution).events();
}

std::vector<std::vector<remat::Event>> segmentations(const remat::StageGraph& graph) {
  std::vector<std::vector<remat::Event>> plans;
  const int end = forward_end(graph);
  for (int count = 2; 2 * count <= end; count *= 2) {
    const Checkpoints kept = segmented(graph, end, even_cuts(end, count));
    plans.push_back(remat::events_of(graph, checkpointed_order(graph, end, kept)));
  }
  return plans;
}

}  // namespace lowtide::strategy::search
