#include "strategy/chain/persistent.h"

#include <algorithm>
#include <limits>

namespace lowtide {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

/// Calls `visit` with each way to store a state on the way from s: the block whose state is stored,
/// the bytes needed to get there and the cost.
template <typename Visit>
void for_each_split(const BlockChain& chain, int s, int t, bool first, Visit visit) {
  const Bytes gradients = chain.gradient_bytes(t);
  Bytes needed = gradients + chain.start(s, first).peak;
  double cost = first ? 0 : chain.start(s, false).cost;
  for (int stored = s + 1; stored <= t; ++stored) {
    visit(stored, needed, cost);
    if (stored == t) return;
    needed = std::max(needed, gradients + chain.pass(stored, first).peak);
    if (!first) cost += chain.pass(stored, false).cost;
  }
}

/// Without executions of forward stages that nothing reads and that are not their first.
std::vector<OpId> without_unread(const StageGraph& graph, const std::vector<int>& stages) {
  std::vector<int> runs(graph.num_stages());
  for (int i : stages) ++runs[i];
  std::vector<bool> wanted(graph.num_values());
  std::vector<OpId> order;
  for (auto i = stages.rbegin(); i != stages.rend(); ++i) {
    const Stage& stage = graph.stage(*i);
    const bool is_read = std::ranges::any_of(stage.outputs, [&](int v) { return wanted[v]; });
    if (--runs[*i] > 0 && !is_read) continue;
    order.push_back(stage.op);
    for (int v : stage.outputs) wanted[v] = false;
    for (int v : stage.inputs) wanted[v] = true;
  }
  std::ranges::reverse(order);
  return order;
}

}  // namespace

PersistentProgram::PersistentProgram(const BlockChain& chain,
                                     const std::vector<std::vector<Tape>>& tapes, Bytes available,
                                     int slots, const Control& control)
    : chain_(chain), tapes_(tapes), unit_(std::max<Bytes>(1, available / slots)), slots_(slots),
      costs_(static_cast<std::size_t>(chain.num_blocks()) * chain.num_blocks()) {
  for (int length = 0; length < chain.num_blocks(); ++length) {
    for (int s = 0; s + length < chain.num_blocks(); ++s) {
      complete_ = complete_ && !control.should_stop();
      if (complete_) solve(s, s + length);
    }
  }
}

int PersistentProgram::up(Bytes bytes) const {
  const Bytes slots = (std::max<Bytes>(bytes, 0) + unit_ - 1) / unit_;
  return static_cast<int>(std::min<Bytes>(slots, slots_ + 1));
}

int PersistentProgram::slots_within(Bytes bytes) const {
  return static_cast<int>(std::clamp<Bytes>(bytes / unit_, -1, slots_));
}

void PersistentProgram::solve(int s, int t) {
  Costs costs(static_cast<std::size_t>(slots_) + 1, kNever);
  offer_tapes(s, t, costs);
  offer_splits(s, t, costs);
  costs_[index(s, t)] = std::move(costs);
}

int PersistentProgram::slots_for(const Tape& tape, int s, int t) const {
  const Run& again = s == t ? tape.make : tape.make_and_go_on;
  const Run& forward = is_first(t) ? tape.first : again;
  return up(std::max(chain_.gradient_bytes(t) + forward.peak, tape.backward.peak));
}

double PersistentProgram::tape_cost(const Tape& tape, int s, int t) const {
  const double again = s == t ? tape.make.cost : tape.make_and_go_on.cost;
  return tape.backward.cost + (is_first(t) ? 0 : again);
}

void PersistentProgram::offer_tapes(int s, int t, Costs& costs) const {
  for (const Tape& tape : tapes_[s]) {
    const int held = s == t ? 0 : up(tape.held);
    const double cost = tape_cost(tape, s, t);
    for (int m = std::max(slots_for(tape, s, t), held); m <= slots_; ++m) {
      costs[m] = std::min(costs[m], s == t ? cost : cost + at(s + 1, t)[m - held]);
    }
  }
}

void PersistentProgram::offer_splits(int s, int t, Costs& costs) const {
  for_each_split(chain_, s, t, is_first(t), [&](int stored, Bytes needed, double cost) {
    const int held = up(chain_.state_bytes(stored, s));
    const double* ahead = at(stored, t).data();
    const double* behind = at(s, stored - 1).data();
    double* best = costs.data();
    for (int m = std::max(up(needed), held); m <= slots_; ++m) {
      best[m] = std::min(best[m], cost + ahead[m - held] + behind[m]);
    }
  });
}

/// Finds again what gave the cost.
PersistentProgram::Choice PersistentProgram::choice(int s, int t, int slots) const {
  const double target = at(s, t)[slots];
  for (const Tape& tape : tapes_[s]) {
    const int held = s == t ? 0 : up(tape.held);
    if (slots < std::max(slots_for(tape, s, t), held)) continue;
    const double cost = tape_cost(tape, s, t);
    if ((s == t ? cost : cost + at(s + 1, t)[slots - held]) != target) continue;
    return {static_cast<int>(&tape - tapes_[s].data()), 0, slots - held};
  }
  Choice result;
  for_each_split(chain_, s, t, is_first(t), [&](int stored, Bytes needed, double cost) {
    const int held = up(chain_.state_bytes(stored, s));
    if (result.stored != 0 || slots < std::max(up(needed), held)) return;
    if (cost + at(stored, t)[slots - held] + at(s, stored - 1)[slots] != target) return;
    result.stored = stored;
    result.slots = slots - held;
  });
  return result;
}

void PersistentProgram::emit(int s, int t, int slots, std::vector<int>& stages) const {
  const auto append = [&](const Run& run) {
    stages.insert(stages.end(), run.stages.begin(), run.stages.end());
  };
  const Choice chosen = choice(s, t, slots);
  const bool first = is_first(t);
  if (chosen.tape != kNone) {
    const Tape& tape = tapes_[s][chosen.tape];
    append(first ? tape.first : s == t ? tape.make : tape.make_and_go_on);
    if (s < t) emit(s + 1, t, chosen.slots, stages);
    append(tape.backward);
    return;
  }
  append(chain_.start(s, first));
  for (int k = s + 1; k < chosen.stored; ++k) append(chain_.pass(k, first));
  emit(chosen.stored, t, chosen.slots, stages);
  emit(s, chosen.stored - 1, slots, stages);
}

std::optional<int> PersistentProgram::fewest_slots() const {
  const Costs& costs = at(0, chain_.num_blocks() - 1);
  const auto found = std::ranges::find_if(costs, [](double cost) { return cost < kNever; });
  if (found == costs.end()) return std::nullopt;
  return static_cast<int>(found - costs.begin());
}

std::vector<OpId> PersistentProgram::order(int slots) const {
  std::vector<int> stages;
  emit(0, chain_.num_blocks() - 1, slots, stages);
  return without_unread(chain_.graph(), stages);
}

bool offer_persistent(const PlanRequest& request, const BlockChain& chain,
                      const std::vector<std::vector<Tape>>& tapes, int slots, Trials& trials) {
  // Some values die earlier than the program reckons: more memory than there is may do.
  constexpr double kMore = 1.25;
  const Bytes available = request.budget_bytes - chain.fixed_bytes();
  if (available > 0) {
    const auto range = static_cast<Bytes>(kMore * static_cast<double>(available));
    const PersistentProgram program(chain, tapes, range, slots, request.control);
    if (!program.complete()) return false;
    if (const auto fewest = program.fewest_slots()) {
      int low = *fewest, high = slots;
      while (low <= high) {
        const int middle = low + (high - low) / 2;
        if (trials.offer(program.order(middle)) <= request.budget_bytes) {
          low = middle + 1;
        } else {
          high = middle - 1;
        }
      }
    }
  }
  if (trials.any_fits()) return true;
  // Does not depend on the budget, so that what it names can be reached when asked for.
  const Bytes most = keep_all_peak(chain.graph()) - chain.graph().resident_bytes();
  const PersistentProgram program(chain, tapes, most, slots, request.control);
  if (!program.complete()) return false;
  if (const auto fewest = program.fewest_slots()) trials.offer(program.order(*fewest));
  return true;
}

}  // namespace lowtide
