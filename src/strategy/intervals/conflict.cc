#include "strategy/intervals/conflict.h"

#include <algorithm>
#include <limits>
#include <map>

namespace lowtide::strategy::intervals {
namespace {

constexpr int kBefore = -1;
constexpr int kBehind = std::numeric_limits<int>::max();

/// The values that are live while the ops of one stage run, in ascending order.
class StageUse {
 public:
  StageUse(const remat::StageGraph& graph, const remat::EventPlan& plan, int stage)
      : graph_(graph), plan_(plan), stage_(stage), ops_(plan.reruns_in(stage)) {
    ops_.push_back(stage);
    for (int v = 0; v < graph.num_values(); ++v) add(v);
  }

  Conflict worst() const {
    const auto bytes_at = [&](int op) { return used_by(op); };
    const int op = *std::ranges::max_element(ops_, {}, bytes_at);
    Conflict conflict{used_by(op) - plan_.memory().limit()};
    if (conflict.missing > 0) conflict.ways = ways_out(op);
    return conflict;
  }

 private:
  /// A value between the op of the stage that makes it and the last op that reads it.
  struct Live {
    int value;
    int begin, end;  // ops; kBefore and kBehind: before and after the stage
    int instance;    // the index of its producer's run
  };

  void add(int v) {
    const int producer = graph_.value(v).producer;
    if (producer > stage_) return;
    const int k = plan_.instance_at(v, stage_);
    const bool made_here = plan_.runs(producer)[k] == stage_;
    const int last = plan_.last_stage(v, k);
    if (last < stage_) return;
    const int end = last > stage_ ? kBehind : last_reader_here(v);
    live_.push_back({v, made_here ? producer : kBefore, end, k});
  }

  bool runs_here(int op) const { return op == stage_ || std::ranges::binary_search(ops_, op); }

  /// Its producer when nothing reads it.
  int last_reader_here(int v) const {
    const remat::StageValue& value = graph_.value(v);
    const auto reader = std::ranges::find_if(value.readers.rbegin(), value.readers.rend(),
                                             [&](int r) { return runs_here(r); });
    return reader == value.readers.rend() ? value.producer : *reader;
  }

  bool is_read_behind(int v, int op) const {
    return std::ranges::any_of(graph_.value(v).readers,
                               [&](int r) { return r > op && runs_here(r); });
  }

  Bytes used_by(int op) const {
    Bytes bytes = graph_.resident_bytes() + graph_.stage(op).workspace;
    for (const Live& live : live_) {
      if (live.begin <= op && op <= live.end) bytes += graph_.value(live.value).bytes;
      if (live.end == op) bytes -= laid_over(live.value, op);
    }
    return bytes;
  }

  /// Bytes that the op writes over that input if it is the last to read it.
  Bytes laid_over(int v, int op) const {
    const auto& overlays = graph_.stage(op).overlays;
    const auto found = std::ranges::find(overlays, v, &remat::Stage::Overlay::input);
    return found == overlays.end() ? 0 : graph_.value(found->output).bytes;
  }

  std::vector<WayOut> ways_out(int op) const {
    std::map<int, WayOut> by_op;
    for (const Live& live : live_) {
      if (live.begin >= op || live.end <= op) continue;
      const WayOut way = way_out(live, op);
      if (way.bytes == 0 || way.first > way.last) continue;
      const auto [at, is_new] = by_op.emplace(way.op, way);
      if (!is_new) at->second = joined(at->second, way);
    }
    std::vector<WayOut> ways;
    for (const auto& [producer, way] : by_op) ways.push_back(way);
    return ways;
  }

  /// A rerun after the op, and no later than the next use of the value.
  WayOut way_out(const Live& live, int op) const {
    const int v = live.value;
    const int producer = graph_.value(v).producer;
    const std::vector<int>& inputs = graph_.stage(op).inputs;
    const bool is_input = std::ranges::find(inputs, v) != inputs.end();
    return {.op = producer,
            .first = live.begin == kBefore && producer > op ? stage_ : stage_ + 1,
            .last = is_read_behind(v, op) ? stage_ : plan_.next_use(v, live.instance, stage_ + 1),
            .bytes = is_input ? laid_over(v, op) : graph_.value(v).bytes};
  }

  static WayOut joined(const WayOut& a, const WayOut& b) {
    return {a.op, std::min(a.first, b.first), std::max(a.last, b.last), a.bytes + b.bytes};
  }

  const remat::StageGraph& graph_;
  const remat::EventPlan& plan_;
  int stage_;
  std::vector<int> ops_;
  std::vector<Live> live_;
};

}  // namespace

Conflict conflict_in(const remat::StageGraph& graph, const remat::EventPlan& plan, int stage) {
  return StageUse(graph, plan, stage).worst();
}

}  // namespace lowtide::strategy::intervals
