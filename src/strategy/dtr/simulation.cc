#include "strategy/dtr/simulation.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "strategy/dtr/rerun_cost.h"

namespace lowtide::strategy::dtr {
namespace {

/// The least staleness, so that a score can divide by it right after a use.
constexpr double kFresh = 1e-9;

Neighbourhood neighbourhood_of(Heuristic heuristic) {
  switch (heuristic) {
    case Heuristic::classes:
    case Heuristic::ahead: return Neighbourhood::classes;
    case Heuristic::full: return Neighbourhood::full;
    case Heuristic::msps: return Neighbourhood::ancestors;
    default: return Neighbourhood::none;
  }
}

/// Values that may not be evicted, since their ops may not run again as late as they may be needed.
struct Pins {
  std::vector<bool> pinned;                ///< per value
  std::vector<std::vector<int>> released;  ///< per stage: no later stage may need these
};

Pins find_pins(const remat::StageGraph& graph) {
  Pins pins{std::vector<bool>(graph.num_values()),
            std::vector<std::vector<int>>(graph.num_stages())};
  std::vector<int> until;  // per value: the last stage that may need it, also for reruns
  for (const remat::StageValue& value : graph.values()) until.push_back(value.last_reader());
  for (int i = graph.end() - 1; i >= 0; --i) {
    const remat::Stage& stage = graph.stage(i);
    int rerun_until = i;
    for (int v : stage.outputs) {
      pins.pinned[v] = until[v] > stage.deadline;
      if (pins.pinned[v]) pins.released[until[v]].push_back(v);
      if (!pins.pinned[v]) rerun_until = std::max(rerun_until, until[v]);
    }
    for (int in : stage.inputs) until[in] = std::max(until[in], rerun_until);
  }
  return pins;
}

std::vector<double> begins_of(const remat::StageGraph& graph) {
  std::vector<double> begins;
  double sum = 0;
  for (const remat::Stage& stage : graph.stages()) {
    begins.push_back(sum);
    sum += stage.cost;
  }
  return begins;
}

class Simulation {
 public:
  Simulation(const remat::StageGraph& graph, const SimulationOptions& options,
             const Control& control)
      : graph_(graph),
        options_(options),
        control_(control),
        pins_(find_pins(graph)),
        begins_(begins_of(graph)),
        rerun_cost_(make_rerun_cost(graph, neighbourhood_of(options.heuristic))),
        values_(graph.num_values()),
        used_(graph.resident_bytes()) {}

  std::optional<std::vector<OpId>> executions() {
    for (now_ = 0; now_ < graph_.num_stages(); ++now_) {
      if (!execute(now_)) return std::nullopt;
      for (int v : pins_.released[now_]) drop(v);
    }
    return std::move(executions_);
  }

 private:
  struct State {
    bool here = false;
    bool was_here = false;
    int locks = 0;           ///< number of ops that wait for it or run with it
    double last_access = 0;  ///< on the clock
    int place = kNone;       ///< in evictable_
  };

  /// Runs the stage, after its missing inputs are made again.
  bool execute(int stage) {
    enter(stage);
    while (!waiting_.empty()) {
      const int next = waiting_.back();
      const auto& inputs = graph_.stage(next).inputs;
      const auto missing = std::ranges::find_if(inputs, [&](int v) { return !values_[v].here; });
      if (missing != inputs.end()) {
        enter(graph_.value(*missing).producer);
        continue;
      }
      waiting_.pop_back();
      if (control_.should_stop() || !run(next)) return false;
    }
    return true;
  }

  void enter(int stage) {
    waiting_.push_back(stage);
    for (int v : graph_.stage(stage).inputs) lock(v);
  }

  bool run(int i) {
    const remat::Stage& stage = graph_.stage(i);
    for (int v : stage.outputs) lock(v);
    if (!make_room_for(stage)) return false;
    if (stage.op != kNone) executions_.push_back(stage.op);
    clock_ += stage.cost;
    if (clock_ > options_.most_cost) return false;
    for (int v : stage.outputs) make(v);
    for (int v : stage.inputs) finish_with(v);
    for (int v : stage.outputs) finish_with(v);
    return true;
  }

  bool make_room_for(const remat::Stage& stage) {
    Bytes needed = stage.workspace - overlaid(stage);
    for (int v : stage.outputs) {
      if (!values_[v].here) needed += graph_.value(v).bytes;
    }
    while (used_ + needed > options_.limit) {
      if (evictable_.empty()) return false;
      drop(cheapest_to_evict());
    }
    return true;
  }

  /// Bytes of outputs written over inputs that die with this run.
  Bytes overlaid(const remat::Stage& stage) const {
    Bytes bytes = 0;
    for (const auto& [output, input] : stage.overlays) {
      const bool dies = values_[input].locks == 1 && goes_when_idle(input);
      if (dies && !values_[output].here) bytes += graph_.value(output).bytes;
    }
    return bytes;
  }

  bool goes_when_idle(int v) const {
    const int last_use = graph_.value(v).last_reader();
    const bool over = last_use == now_ || (options_.drop_remade && last_use < now_);
    return over && !pins_.pinned[v];
  }

  void make(int v) {
    State& value = values_[v];
    if (value.here) return;
    if (value.was_here) rerun_cost_->made(v);
    value.here = value.was_here = true;
    used_ += graph_.value(v).bytes;
  }

  void drop(int v) {
    values_[v].here = false;
    used_ -= graph_.value(v).bytes;
    update_place(v);
    rerun_cost_->evicted(v);
  }

  void lock(int v) {
    ++values_[v].locks;
    update_place(v);
  }

  void finish_with(int v) {
    values_[v].last_access = clock_;
    --values_[v].locks;
    if (values_[v].locks == 0 && goes_when_idle(v)) {
      drop(v);
    } else {
      update_place(v);
    }
  }

  /// Keeps the list of evictable values up to date.
  void update_place(int v) {
    State& value = values_[v];
    const bool evictable =
        value.here && value.locks == 0 && !pins_.pinned[v] && graph_.value(v).bytes > 0;
    if (evictable == (value.place != kNone)) return;
    if (evictable) {
      value.place = static_cast<int>(evictable_.size());
      evictable_.push_back(v);
      return;
    }
    values_[evictable_.back()].place = value.place;
    std::swap(evictable_[value.place], evictable_.back());
    evictable_.pop_back();
    value.place = kNone;
  }

  /// The neighbourhood is expensive to find, but it can only increase a score.
  int cheapest_to_evict() {
    constexpr double kPerValue = 10;  // nanoseconds, per evictable value
    constexpr double kPerNeighbourhood = 150;
    std::int64_t neighbourhoods = 0;
    std::pair<double, int> least{std::numeric_limits<double>::infinity(), kNone};
    for (int v : evictable_) {
      const double own_cost = graph_.stage(graph_.value(v).producer).cost;
      if (score(v, own_cost) > least.first) continue;
      ++neighbourhoods;
      const std::pair<double, int> rated{score(v, rerun_cost_->of(v)), v};
      if (least.second == kNone || rated < least) least = rated;
    }
    control_.count(kPerValue * static_cast<double>(evictable_.size()) +
                   kPerNeighbourhood * static_cast<double>(neighbourhoods));
    return least.second;
  }

  double score(int v, double cost) const {
    const auto bytes = static_cast<double>(graph_.value(v).bytes);
    const double staleness = std::max(kFresh, clock_ - values_[v].last_access);
    switch (options_.heuristic) {
      case Heuristic::lru: return -staleness;
      case Heuristic::size: return -bytes;
      case Heuristic::msps: return cost / bytes;
      case Heuristic::ahead: return cost / (bytes * std::max(kFresh, until_next_use(v)));
      default: return cost / (bytes * staleness);
    }
  }

  /// Time on the clock of a step without reruns. A value that is useful only to make others again
  /// counts as used last.
  double until_next_use(int v) const {
    const std::vector<int>& readers = graph_.value(v).readers;
    const auto next = std::ranges::upper_bound(readers, now_);
    return begins_[next == readers.end() ? graph_.end() : *next] - begins_[now_];
  }

  const remat::StageGraph& graph_;
  const SimulationOptions& options_;
  const Control& control_;
  const Pins pins_;
  const std::vector<double> begins_;  // per stage: the cost of earlier stages
  std::unique_ptr<RerunCost> rerun_cost_;
  std::vector<State> values_;
  std::vector<int> evictable_;
  std::vector<int> waiting_;  // stages; each waits for outputs of the ones after it
  std::vector<OpId> executions_;
  Bytes used_;
  double clock_ = 0;
  int now_ = 0;  // the current stage of the step
};

}  // namespace

std::optional<std::vector<OpId>> simulate(const remat::StageGraph& graph,
                                          const SimulationOptions& options,
                                          const Control& control) {
  return Simulation(graph, options, control).executions();
}

void lower_limit(Bytes from, const Control& control, const std::function<bool(Bytes)>& fits) {
  auto limit = static_cast<double>(from);
  for (double step : {0.1, 0.03, 0.01}) {
    while (!control.should_stop()) {
      const double lower = limit * (1 - step);
      if (!fits(static_cast<Bytes>(lower))) break;
      limit = lower;
    }
  }
}

}  // namespace lowtide::strategy::dtr
