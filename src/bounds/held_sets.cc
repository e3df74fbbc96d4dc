#include "bounds/held_sets.h"

#include <algorithm>
#include <utility>

#include "bounds/cost.h"

namespace lowtide::bounds {

HeldSetProgram::HeldSetProgram(const remat::StageGraph& graph, Bytes budget,
                               const CompletionBound& completion, Bytes free_bytes)
    : graph_(graph), completion_(completion), room_(budget - graph.resident_bytes()) {
  for (const remat::StageValue& value : graph.values()) {
    bytes_.push_back(value.bytes > free_bytes ? value.bytes : 0);
  }
  find_sets();
  find_use_costs();
}

bool HeldSetProgram::is_small_enough(const remat::StageGraph& graph) {
  return graph.num_stages() < ValueSet::kMost && graph.num_values() < ValueSet::kMost;
}

void HeldSetProgram::find_sets() {
  inputs_.resize(graph_.num_stages());
  outputs_.resize(graph_.num_stages());
  for (int i = 0; i < graph_.num_stages(); ++i) {
    for (int v : graph_.stage(i).inputs) inputs_[i].insert(v);
    for (int v : graph_.stage(i).outputs) outputs_[i].insert(v);
    own_bytes_.push_back(graph_.stage(i).workspace + bytes_of(outputs_[i]));
  }
}

void HeldSetProgram::find_use_costs() {
  use_costs_.assign(graph_.num_stages() + 1, std::vector<double>(graph_.num_values(), kNever));
  for (int t = 0; t < graph_.num_stages(); ++t) {
    std::vector<double>& costs = use_costs_[t];
    for (int i = graph_.end(); i >= 0; --i) {
      double cost = i >= t ? 0 : kNever;
      for (int v : graph_.stage(i).outputs) {
        if (graph_.stage(i).latest >= t) cost = std::min(cost, costs[v] + graph_.stage(i).cost);
      }
      for (int v : graph_.stage(i).inputs) costs[v] = std::min(costs[v], cost);
    }
  }
}

/// Values that events in the stage or later may read in a plan that stays cheap enough, when reruns
/// so far cost `cost`.
ValueSet HeldSetProgram::useful(int stage, double cost) const {
  const double left = effort_.cost_below - graph_.required_cost() * (1 - kRounding) - cost;
  ValueSet result;
  for (int v = 0; v < graph_.num_values(); ++v) {
    if (use_costs_[stage][v] < left) result.insert(v);
  }
  return result;
}

HeldSetAnswer HeldSetProgram::run(const HeldSetEffort& effort, const Control& control) {
  constexpr double kNanoseconds = 20;  // per op that may run in a stage
  effort_ = effort;
  control_ = &control;
  ended_ = false;
  traces_.clear();
  std::vector<State> states(1);
  HeldSetAnswer answer;
  for (int t = 0; t < graph_.num_stages(); ++t) {
    answer.bound = effort_.cost_below;
    for (const State& s : states) {
      answer.bound = std::min(answer.bound, least_total(t, s.live, s.cost));
    }
    here_ = {};
    next_ = {};
    for (const State& state : states) {
      here_.index.emplace(state.live, static_cast<int>(here_.states.size()));
      here_.states.push_back(state);
    }
    for (std::size_t k = 0; k < here_.states.size(); ++k) {
      answer.states = static_cast<std::int64_t>(traces_.size());
      if (answer.states > effort_.states || control.should_stop()) return answer;
      const State state = here_.states[k];
      const bool is_stale = here_.index.at(state.live) != static_cast<int>(k);
      drops_ = 0;
      if (!is_stale) expand(t, state);
      control.count(kNanoseconds * (t + 1));
      if (ended_) return answer;
    }
    states = undominated(std::move(next_.states));
  }
  answer.complete = true;
  answer.bound = effort_.cost_below;
  if (!states.empty()) {
    answer.bound = graph_.required_cost() + states.front().cost;
    answer.executions = executions_to(states.front().trace);
  }
  answer.bound *= 1 - kRounding;
  return answer;
}

double HeldSetProgram::least_total(int stage, const ValueSet& live, double cost) const {
  const double rest = stage < graph_.num_stages() ? completion_.least_cost(stage, live) : 0;
  return (graph_.required_cost() + cost + std::max(0.0, rest)) * (1 - kRounding);
}

bool HeldSetProgram::costs_too_much(int stage, const ValueSet& live, double cost) const {
  return least_total(stage, live, cost) >= effort_.cost_below;
}

/// Runs the stage's own op, or runs any other again that makes a useful value.
void HeldSetProgram::expand(int stage, const State& state) {
  if (!may_all_run(stage, missing_ops(stage, state.live))) return;
  if (inputs_[stage].is_subset_of(state.live)) place(stage, stage, state);
  const ValueSet of_use = useful(stage, state.cost);
  for (int i = 0; i < stage; ++i) {
    const bool is_there = (outputs_[i] & of_use).is_subset_of(state.live);
    const bool may = stage <= graph_.stage(i).latest && inputs_[i].is_subset_of(state.live);
    if (may && !is_there) place(stage, i, state);
  }
}

/// The ops that must run again before the stage's own op: the makers of its missing inputs, and of
/// their missing inputs.
ValueSet HeldSetProgram::missing_ops(int stage, const ValueSet& live) const {
  ValueSet ops;
  ValueSet read = inputs_[stage];
  for (int i = stage - 1; i >= 0; --i) {
    if (!outputs_[i].intersects(read - live)) continue;
    ops.insert(i);
    read = read | inputs_[i];
  }
  return ops;
}

bool HeldSetProgram::may_all_run(int stage, const ValueSet& ops) const {
  bool may = true;
  ops.for_each([&](int i) { may = may && stage <= graph_.stage(i).latest; });
  return may;
}

void HeldSetProgram::place(int stage, int op, const State& state) {
  Placing placing{.from = &state,
                  .stage = stage,
                  .op = op,
                  .live = state.live - outputs_[op],
                  .cost = state.cost,
                  .items = {}};
  const Bytes used = bytes_of(placing.live) + own_bytes_[op];
  if (!placing.is_first()) placing.cost += graph_.stage(op).cost;
  placing.live = (placing.live | outputs_[op]) & useful(placing.next_stage(), placing.cost);
  if (used > room_) list_items(placing);
  drop(placing, 0, placing.live, used - room_, graph_.stage(op).in_place);
}

/// Values that no first run needs, or that can be made again for it.
void HeldSetProgram::list_items(Placing& placing) const {
  ValueSet stays = outputs_[placing.op];
  if (graph_.stage(placing.op).in_place == 0) stays = stays | inputs_[placing.op];
  (placing.from->live - stays).for_each([&](int v) {
    if (bytes_[v] > 0 && !must_stay(v, placing.next_stage())) placing.items.push_back(v);
  });
  std::ranges::stable_sort(placing.items, std::ranges::greater(), [&](int v) { return bytes_[v]; });
}

/// Whether a first run from that stage on reads the value, which can no longer be made again.
bool HeldSetProgram::must_stay(int value, int from_stage) const {
  const remat::StageValue& v = graph_.value(value);
  return v.last_reader() >= from_stage && graph_.stage(v.producer).latest < from_stage;
}

/// Tries all sets of items, from the given one on, that free the missing bytes and from which no
/// item can be left out: the last one is the smallest.
void HeldSetProgram::drop(const Placing& placing, std::size_t item, const ValueSet& live,
                          Bytes missing, Bytes overwritable) {
  if (must_end() || costs_too_much(placing.next_stage(), live, placing.cost)) return;
  if (missing <= 0) {
    add(placing, live);
    return;
  }
  for (std::size_t k = item; k < placing.items.size(); ++k) {
    const int v = placing.items[k];
    const bool written_over = inputs_[placing.op].contains(v);  // then its output overwrites it
    const Bytes freed = written_over ? std::min(overwritable, bytes_[v]) : bytes_[v];
    if (freed <= 0) continue;
    ValueSet rest = live;
    rest.erase(v);
    drop(placing, k + 1, rest, missing - freed, overwritable - (written_over ? freed : 0));
  }
}

/// One expansion may try as many sets as there are subsets of the items, so it asks for the limits
/// itself.
bool HeldSetProgram::must_end() {
  constexpr std::int64_t kDropsPerCheck = 4096;
  constexpr double kNanoseconds = 200;
  if (ended_ || ++drops_ % kDropsPerCheck != 0) return ended_;
  control_->count(kNanoseconds * kDropsPerCheck);
  ended_ = control_->should_stop() || static_cast<std::int64_t>(traces_.size()) > effort_.states;
  return ended_;
}

void HeldSetProgram::add(const Placing& placing, const ValueSet& live) {
  Layer& layer = placing.is_first() ? next_ : here_;
  State state{live, placing.cost, static_cast<int>(traces_.size())};
  const auto [at, is_new] = layer.index.try_emplace(live, static_cast<int>(layer.states.size()));
  if (!is_new && layer.states[at->second].cost <= placing.cost) return;
  traces_.push_back({placing.from->trace, graph_.stage(placing.op).op});
  if (!is_new && placing.is_first()) {
    layer.states[at->second] = state;
    return;
  }
  at->second = static_cast<int>(layer.states.size());
  layer.states.push_back(state);
}

/// Sorts by cost. Compares each state with a number of cheaper ones.
std::vector<HeldSetProgram::State> HeldSetProgram::undominated(std::vector<State> states) const {
  constexpr std::size_t kCompared = 300;
  std::ranges::stable_sort(states, {}, &State::cost);
  std::vector<State> kept;
  for (const State& state : states) {
    const auto end = kept.begin() + static_cast<std::ptrdiff_t>(std::min(kept.size(), kCompared));
    const bool dominated = std::any_of(
        kept.begin(), end, [&](const State& other) { return state.live.is_subset_of(other.live); });
    if (!dominated) kept.push_back(state);
  }
  return kept;
}

Bytes HeldSetProgram::bytes_of(const ValueSet& values) const {
  Bytes sum = 0;
  values.for_each([&](int v) { sum += bytes_[v]; });
  return sum;
}

std::vector<OpId> HeldSetProgram::executions_to(int trace) const {
  std::vector<OpId> executions;
  for (; trace >= 0; trace = traces_[trace].before) {
    if (traces_[trace].op != kNone) executions.push_back(traces_[trace].op);
  }
  std::ranges::reverse(executions);
  return executions;
}

}  // namespace lowtide::bounds
