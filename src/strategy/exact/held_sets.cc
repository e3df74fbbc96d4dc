#include "strategy/exact/held_sets.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace lowtide {
namespace {

/// Sums of floating-point numbers may be off by this share; a bound must not be.
constexpr double kRounding = 1e-9;

constexpr double kNever = std::numeric_limits<double>::infinity();

}  // namespace

HeldSetProgram::HeldSetProgram(const StageGraph& graph, Bytes budget,
                               const CompletionBound& completion, Bytes free_bytes)
    : graph_(graph), completion_(completion), room_(budget - graph.resident_bytes()) {
  for (const StageValue& value : graph.values()) {
    bytes_.push_back(value.bytes > free_bytes ? value.bytes : 0);
  }
  find_sets();
  find_use_costs();
}

bool HeldSetProgram::is_small_enough(const StageGraph& graph) {
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
  related_.resize(graph_.num_stages());
  for (int i = 0; i < graph_.num_stages(); ++i) {
    for (int k = 0; k < graph_.num_stages(); ++k) {
      if ((inputs_[i] | outputs_[i]).intersects(inputs_[k] | outputs_[k])) related_[i].insert(k);
    }
  }
  for (int i = 0; i < graph_.num_stages(); ++i) {
    Bytes least = room_;
    int last = i;
    for (int v : graph_.stage(i).outputs) {
      for (int k : graph_.value(v).readers) {
        least = std::min(least, own_bytes_[k] - graph_.stage(k).in_place);
        last = std::max({last, k, graph_.stage(k).latest});
      }
    }
    reader_bytes_.push_back(least);
    may_run_late_.push_back(graph_.stage(i).latest >= last);
  }
}

void HeldSetProgram::find_use_costs() {
  use_costs_.assign(graph_.num_stages() + 1,
                    std::vector<double>(graph_.num_values(), kNever));
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

/// Values that events in the stage or later may read in a plan that is cheap enough, so much having
/// been paid for reruns.
ValueSet HeldSetProgram::useful(int stage, double cost) const {
  const double left = effort_.cost_below - graph_.required_cost() * (1 - kRounding) - cost;
  ValueSet result;
  for (int v = 0; v < graph_.num_values(); ++v) {
    if (use_costs_[stage][v] < left) result.insert(v);
  }
  return result;
}

HeldSetAnswer HeldSetProgram::run(const HeldSetEffort& effort, const Control& control) {
  effort_ = effort;
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
    for (State& state : states) {
      here_.index.emplace(std::pair(state.live, state.hurried),
                          static_cast<int>(here_.states.size()));
      here_.states.push_back(state);
    }
    for (std::size_t k = 0; k < here_.states.size(); ++k) {
      answer.states = static_cast<std::int64_t>(traces_.size());
      if (answer.states > effort_.states || control.should_stop()) return answer;
      const State state = here_.states[k];
      const bool is_stale = here_.index.at({state.live, state.hurried}) != static_cast<int>(k);
      if (!is_stale) expand(t, state);
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

bool HeldSetProgram::is_too_dear(int stage, const ValueSet& live, double cost) const {
  return least_total(stage, live, cost) >= effort_.cost_below;
}

void HeldSetProgram::expand(int stage, const State& state) {
  const ValueSet missing = missing_ops(stage, state.live);
  if (!may_all_run(stage, missing)) return;
  if (inputs_[stage].is_subset_of(state.live)) place(stage, stage, state, false);
  bool is_first = true;
  const bool in_order = all_fits(stage, missing, state.live);
  missing.for_each([&](int i) {
    if (!inputs_[i].is_subset_of(state.live) || (in_order && !is_first)) return;
    place(stage, i, state, false);
    is_first = false;
  });
  hurry(stage, missing, state);
}

/// What must run again before the stage's own op: the makers of what it reads and is not there, and
/// of what these read.
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

/// Whether there is room for all that these ops and the stage's own make, so that nothing has to go
/// and their order is no matter.
bool HeldSetProgram::all_fits(int stage, const ValueSet& ops, const ValueSet& live) const {
  Bytes used = bytes_of(live) + own_bytes_[stage];
  ops.for_each([&](int i) { used += own_bytes_[i]; });
  return used <= room_;
}

void HeldSetProgram::hurry(int stage, const ValueSet& missing, const State& state) {
  const ValueSet of_use = useful(stage, state.cost);
  ValueSet others;
  for (int i = 0; i < stage; ++i) {
    const bool is_there = (outputs_[i] & of_use).is_subset_of(state.live);
    if (stage <= graph_.stage(i).latest && !is_there) others.insert(i);
  }
  others = others - missing;
  const Bytes room = room_ - bytes_of(state.live) - most_of(others | missing, stage);
  others.for_each([&](int i) {
    if (!inputs_[i].is_subset_of(state.live)) return;
    const bool is_last_chance = graph_.stage(i).latest == stage;
    const bool may = is_last_chance || (!is_loose(i, others, room) && may_pay(stage, i, state));
    if (may) place(stage, i, state, true);
  });
}

/// What the largest of these ops and the stage's own make and work in.
Bytes HeldSetProgram::most_of(const ValueSet& ops, int stage) const {
  Bytes most = own_bytes_[stage];
  ops.for_each([&](int i) { most = std::max(most, own_bytes_[i]); });
  return most;
}

/// Whether the op could run behind the next run too, whatever that is: there is room for it then,
/// and for those of the others with which it shares values, directly or through others, and all
/// that these make takes no more memory than the least that goes for it.
bool HeldSetProgram::is_loose(int op, const ValueSet& others, Bytes room) const {
  ValueSet group;
  ValueSet fringe;
  fringe.insert(op);
  while (!fringe.empty()) {
    group = group | fringe;
    ValueSet reached;
    fringe.for_each([&](int i) { reached = reached | (related_[i] & others); });
    fringe = reached - group;
  }
  Bytes own = 0;
  Bytes made = 0;
  Bytes least = room_;
  group.for_each([&](int i) {
    own += own_bytes_[i];
    made += bytes_of(outputs_[i]);
    least = std::min(least, least_of(inputs_[i]));
  });
  return own <= room && made <= least;
}

/// Whether, behind these hurried ops, something that each of them reads may go at a cost that is
/// not too much; or there may be no room for one of them later.
bool HeldSetProgram::may_pay(int stage, int op, const State& state) const {
  ValueSet hurried = state.hurried;
  hurried.insert(op);
  const ValueSet of_use = useful(stage, state.cost);
  const ValueSet live = state.live | (outputs_[op] & of_use);
  ValueSet goes;  // where an op has no choice
  bool all_pay = true;
  hurried.for_each([&](int i) {
    const bool is_read = i != op && outputs_[i].intersects(inputs_[op]);
    const bool takes_more = own_bytes_[i] > bytes_of(outputs_[i] & of_use);
    if (is_read || takes_more || graph_.stage(i).latest == stage) return;
    int ways = 0;
    int way = 0;
    Bytes freed = 0;
    inputs_[i].for_each([&](int v) {
      ValueSet rest = live;
      rest.erase(v);
      if (must_stay(v, stage)) return;
      if (is_too_dear(stage, rest, state.cost + graph_.stage(op).cost)) return;
      ++ways;
      way = v;
      freed += bytes_[v];
    });
    all_pay = all_pay && ways > 0 && !is_as_good_later(i, freed, least_of(outputs_[i] & live));
    if (ways == 1) goes.insert(way);
  });
  return all_pay && !is_too_dear(stage, live - goes, state.cost + graph_.stage(op).cost);
}

void HeldSetProgram::place(int stage, int op, const State& state, bool hurries) {
  Placing placing{.from = &state, .stage = stage, .op = op, .live = state.live - outputs_[op],
                  .hurried = state.hurried, .hurries = hurries, .cost = state.cost, .items = {},
                  .inputs = inputs_[op]};
  const Bytes used = bytes_of(placing.live) + own_bytes_[op];
  if (!placing.is_first()) placing.cost += graph_.stage(op).cost;
  const int next = placing.is_first() ? stage + 1 : stage;
  placing.live = (placing.live | outputs_[op]) & useful(next, placing.cost);
  if (hurries) {
    state.hurried.for_each([&](int i) {
      if (outputs_[i].intersects(inputs_[op])) placing.hurried.erase(i);
    });
    placing.hurried.insert(op);
  }
  if (used > room_) list_items(placing);
  drop(placing, 0, placing.live, used - room_, graph_.stage(op).in_place);
}

/// Those that no first run needs, or that can be made again for it.
void HeldSetProgram::list_items(Placing& placing) const {
  ValueSet stays = outputs_[placing.op];
  if (graph_.stage(placing.op).in_place == 0) stays = stays | placing.inputs;
  const int next = placing.is_first() ? placing.stage + 1 : placing.stage;
  (placing.from->live - stays).for_each([&](int v) {
    if (bytes_[v] > 0 && !must_stay(v, next)) placing.items.push_back(v);
  });
  std::ranges::stable_sort(placing.items, std::ranges::greater(),
                           [&](int v) { return bytes_[v]; });
}

/// Whether a first run from that stage on reads what can no longer be made again.
bool HeldSetProgram::must_stay(int value, int from_stage) const {
  const StageValue& v = graph_.value(value);
  return v.last_reader() >= from_stage && graph_.stage(v.producer).latest < from_stage;
}

/// Tries all sets of items from the given one on that free what is missing, and of which each is
/// needed for that: the last is the smallest.
void HeldSetProgram::drop(const Placing& placing, std::size_t item, const ValueSet& live,
                          Bytes missing, Bytes overwritable) {
  const int next = placing.is_first() ? placing.stage + 1 : placing.stage;
  if (is_too_dear(next, live, placing.cost)) return;
  if (missing <= 0) {
    settle(placing, live);
    return;
  }
  for (std::size_t k = item; k < placing.items.size(); ++k) {
    const int v = placing.items[k];
    const bool written_over = placing.inputs.contains(v);
    const Bytes freed =
        written_over ? std::min(overwritable, bytes_[v]) : bytes_[v];
    if (freed <= 0) continue;
    ValueSet rest = live;
    rest.erase(v);
    drop(placing, k + 1, rest, missing - freed, overwritable - (written_over ? freed : 0));
  }
}

void HeldSetProgram::settle(const Placing& placing, const ValueSet& live) {
  if (placing.hurries) {
    add(here_, placing, live, placing.hurried);
  } else if (!could_wait(placing, live)) {
    const bool is_first = placing.is_first();
    add(is_first ? next_ : here_, placing, is_first ? without_free(live) : live, {});
  }
}

/// Whenever such a value is read, or something that makes it goes, there is room for it: the plan
/// that holds it has both.
ValueSet HeldSetProgram::without_free(const ValueSet& live) const {
  ValueSet rest = live;
  for (int i = 0; i < graph_.end(); ++i) {
    const bool is_free = graph_.stage(i).cost == 0 && own_bytes_[i] == bytes_of(outputs_[i]);
    if (!is_free || !may_run_late_[i] || !inputs_[i].is_subset_of(live)) continue;
    if (outputs_[i].is_subset_of(live)) rest = rest - outputs_[i];
  }
  return rest;
}

/// Whether the op could as well run right before what it makes is read: so many bytes of its inputs
/// take no more memory until then than the least that it may have been run for, and while it runs
/// no more than its reader takes.
bool HeldSetProgram::is_as_good_later(int op, Bytes inputs, Bytes made) const {
  return inputs <= made && may_run_late_[op] && inputs + own_bytes_[op] - made <= reader_bytes_[op];
}

/// Whether one of the hurried ops could as well run behind this run, what it reads being held over
/// it in place of what it makes.
bool HeldSetProgram::could_wait(const Placing& placing, const ValueSet& live) const {
  bool could = false;
  placing.hurried.for_each([&](int i) {
    if (placing.is_first() && graph_.stage(i).latest <= placing.stage) return;
    const Bytes more = bytes_of(inputs_[i] - live);
    const Bytes made = bytes_of(outputs_[i] & live);
    const bool has_room = bytes_of(live - outputs_[i]) + more + own_bytes_[i] <= room_;
    could = could || (more <= made && has_room) ||
            is_as_good_later(i, more, least_of(outputs_[i] & live));
  });
  return could;
}

void HeldSetProgram::add(Layer& layer, const Placing& placing, const ValueSet& live,
                         const ValueSet& hurried) {
  State state{live, hurried, placing.cost, static_cast<int>(traces_.size())};
  const auto [at, is_new] =
      layer.index.try_emplace({live, hurried}, static_cast<int>(layer.states.size()));
  if (!is_new && layer.states[at->second].cost <= placing.cost) return;
  traces_.push_back({placing.from->trace, graph_.stage(placing.op).op});
  if (!is_new && &layer == &next_) {
    layer.states[at->second] = state;
    return;
  }
  at->second = static_cast<int>(layer.states.size());
  layer.states.push_back(state);
}

/// The cheapest first. Each is compared with a number of those before it.
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

/// The bytes of the smallest.
Bytes HeldSetProgram::least_of(const ValueSet& values) const {
  Bytes least = std::numeric_limits<Bytes>::max();
  values.for_each([&](int v) { least = std::min(least, bytes_[v]); });
  return values.empty() ? 0 : least;
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

}  // namespace lowtide
