#include "strategy/lower_sets/program.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace lowtide::strategy::lower_sets {
namespace {

constexpr Bytes kNever = std::numeric_limits<Bytes>::max();

}  // namespace

LowerSetProgram::LowerSetProgram(const remat::StageGraph& graph, int forward_end,
                                 std::vector<bool> kept, std::vector<LowerSet> family, int slots,
                                 const Control& control)
    : graph_(graph),
      forward_end_(forward_end),
      kept_(std::move(kept)),
      family_(std::move(family)),
      slots_(slots),
      fixed_bytes_(graph.resident_bytes()),
      beside_(graph.num_values()),
      segments_(family_.size() * family_.size()) {
  const std::vector<Bytes> late = late_bytes(graph, forward_end);
  for (int v = 0; v < graph.num_values(); ++v) {
    const remat::StageValue& value = graph.value(v);
    if (value.producer >= forward_end) continue;
    if (kept_[v]) fixed_bytes_ += value.bytes;
    for (int t : value.readers) {
      if (t < forward_end) continue;
      beside_[v] = std::max(beside_[v], late[t] + graph.stage(t).workspace);
    }
  }
  double total = 0;
  for (int i = 0; i < forward_end; ++i) total += graph.stage(i).cost;
  unit_ = std::max(total, std::numeric_limits<double>::min()) / slots;
  for (int to = 1; to < num_sets() && !control.should_stop(); ++to) {
    const std::vector<bool> read = read_behind(family_[to]);
    for (int from = 0; from < to; ++from) {
      segments_[static_cast<std::size_t>(from) * family_.size() + to] =
          make_segment(from, to, read);
    }
  }
}

/// Per value, whether a forward stage outside of the set reads it.
std::vector<bool> LowerSetProgram::read_behind(const LowerSet& set) const {
  std::vector<bool> read(graph_.num_values());
  for (int stage = 0; stage < forward_end_; ++stage) {
    if (set[stage]) continue;
    for (int v : graph_.stage(stage).inputs) read[v] = true;
  }
  return read;
}

LowerSetProgram::Segment LowerSetProgram::make_segment(int from, int to,
                                                       const std::vector<bool>& read_behind) const {
  Segment result;
  const bool is_last = to == num_sets() - 1;
  Bytes beside = 0;
  for (int i = 0; i < forward_end_; ++i) {
    if (family_[from][i] && !family_[to][i]) return {};
    if (family_[from][i] || !family_[to][i]) continue;
    bool again = false;
    for (int v : graph_.stage(i).outputs) {
      if (kept_[v]) continue;
      const remat::StageValue& value = graph_.value(v);
      const bool cached = !is_last && read_behind[v];
      if (cached) result.cached += value.bytes;
      if (value.last_reader() >= forward_end_ || cached) result.needed += value.bytes;
      beside = std::max(beside, beside_[v]);
      again = again || !cached;
    }
    if (again && !is_last) result.cost += graph_.stage(i).cost;
  }
  result.possible = true;
  result.needed += beside;
  return result;
}

std::vector<int> LowerSetProgram::cheapest(Bytes bytes) const {
  struct State {
    Bytes cached = kNever;
    int from = kNone;
    int slot = 0;
  };
  const std::size_t width = static_cast<std::size_t>(slots_) + 1;
  std::vector<State> states(family_.size() * width);  // by set and slots of time
  states[0] = {0, kNone, 0};
  for (int from = 0; from < num_sets(); ++from) {
    const State* before = &states[from * width];
    for (int to = from + 1; to < num_sets(); ++to) {
      const Segment& next = segment(from, to);
      const auto time = static_cast<int>(std::ceil(next.cost / unit_ * (1 - 1e-12)));
      if (!next.possible || next.needed > bytes) continue;
      State* after = &states[to * width];
      for (int slot = 0; slot + time <= slots_; ++slot) {
        if (before[slot].cached > bytes - next.needed) continue;
        const Bytes cached = before[slot].cached + next.cached;
        if (cached < after[slot + time].cached) after[slot + time] = {cached, from, slot};
      }
    }
  }
  int set = num_sets() - 1, slot = 0;
  while (slot < slots_ && states[set * width + slot].cached == kNever) ++slot;
  if (states[set * width + slot].cached == kNever) return {};
  std::vector<int> chain;
  while (set != kNone) {
    chain.push_back(set);
    const State& state = states[set * width + slot];
    set = state.from;
    slot = state.slot;
  }
  std::ranges::reverse(chain);
  return chain;
}

Checkpoints LowerSetProgram::checkpoints(const std::vector<int>& chain) const {
  Checkpoints result{kept_, lone_groups(graph_)};
  for (std::size_t k = 1; k < chain.size(); ++k) {
    const bool is_last = k + 1 == chain.size();
    const std::vector<bool> read = read_behind(family_[chain[k]]);
    for (int i = 0; i < forward_end_; ++i) {
      if (family_[chain[k - 1]][i] || !family_[chain[k]][i]) continue;
      result.group[i] = static_cast<int>(k);
      for (int v : graph_.stage(i).outputs) {
        if (is_last || read[v]) result.kept[v] = true;
      }
    }
  }
  return result;
}

}  // namespace lowtide::strategy::lower_sets
