#include "ordering/schedule.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace lowtide::ordering {
namespace {

std::vector<int> given_order(const remat::StageGraph& graph) {
  std::vector<int> order(graph.end());
  std::iota(order.begin(), order.end(), 0);
  return order;
}

}  // namespace

std::vector<OpId> ops_of(const remat::StageGraph& graph, std::span<const int> stages) {
  std::vector<OpId> ops;
  for (int stage : stages) ops.push_back(graph.stage(stage).op);
  return ops;
}

Schedule::Schedule(const remat::StageGraph& graph, Precedence precedence, Bytes limit)
    : Schedule(graph, std::move(precedence), limit, given_order(graph)) {}

Schedule::Schedule(const remat::StageGraph& graph, Precedence precedence, Bytes limit,
                   std::vector<int> order)
    : graph_(&graph),
      precedence_(std::move(precedence)),
      limit_(limit),
      order_(std::move(order)),
      position_(graph.num_stages(), graph.end()),
      live_(graph.num_stages(), graph.resident_bytes()),
      in_use_(graph.end()) {
  for (int k = 0; k < size(); ++k) position_[order_[k]] = k;
  for (const remat::StageValue& value : graph.values()) {
    int last = position_[value.producer];
    for (int reader : value.readers) last = std::max(last, position_[reader]);
    last_.push_back(last);
  }
  for (int k = 0; k < size(); ++k) {
    run(k);
    excess_ += above_limit(k);
  }
}

void Schedule::set_limit(Bytes limit) {
  limit_ = limit;
  excess_ = 0;
  for (int k = 0; k < size(); ++k) excess_ += above_limit(k);
}

Bytes Schedule::peak() const { return std::ranges::max(in_use_); }

Schedule::Range Schedule::range_of(int position) const {
  Range range{0, size() - 1};
  const int stage = order_[position];
  for (int other : precedence_.before(stage)) {
    range.first = std::max(range.first, position_[other] + 1);
  }
  for (int other : precedence_.after(stage)) {
    range.last = std::min(range.last, position_[other] - 1);
  }
  return range;
}

void Schedule::move(int from, int to) {
  for (int k = from; k < to; ++k) swap_with_next(k);
  for (int k = from; k > to; --k) swap_with_next(k - 1);
}

/// The stage that moves to the front has no predecessor among those before it.
void Schedule::rearrange(int first, std::span<const int> stages) {
  for (int stage : stages) move(position_[stage], first++);
}

/// The memory before and after the two stages does not change.
void Schedule::swap_with_next(int position) {
  const int first = order_[position];
  const int second = order_[position + 1];
  const std::vector<int>& read_by_first = graph_->stage(first).inputs;
  for (int v : graph_->stage(second).inputs) {
    const bool by_both = std::ranges::find(read_by_first, v) != read_by_first.end();
    if (last_[v] == position + 1 && !by_both) last_[v] = position;
  }
  for (int v : read_by_first) last_[v] = std::max(last_[v], position + 1);
  for (int v : graph_->stage(first).outputs) last_[v] = std::max(last_[v], position + 1);
  for (int v : graph_->stage(second).outputs) {
    if (graph_->value(v).readers.empty()) last_[v] = position;
  }
  std::swap(order_[position], order_[position + 1]);
  position_[first] = position + 1;
  position_[second] = position;
  for (int k : {position, position + 1}) {
    excess_ -= above_limit(k);
    run(k);
    excess_ += above_limit(k);
  }
}

/// Updates the bytes in use at the position and live after it.
void Schedule::run(int position) {
  const remat::Stage& stage = graph_->stage(order_[position]);
  Bytes live = live_[position];
  for (int v : stage.outputs) live += graph_->value(v).bytes;
  Bytes overlaid = 0;
  for (const auto& [output, input] : stage.overlays) {
    if (last_[input] == position) overlaid += graph_->value(output).bytes;
  }
  in_use_[position] = live + stage.workspace - overlaid;
  for (int v : stage.inputs) live -= last_[v] == position ? graph_->value(v).bytes : 0;
  for (int v : stage.outputs) live -= last_[v] == position ? graph_->value(v).bytes : 0;
  live_[position + 1] = live;
}

Bytes Schedule::above_limit(int position) const {
  return std::max<Bytes>(0, in_use_[position] - limit_);
}

}  // namespace lowtide::ordering
