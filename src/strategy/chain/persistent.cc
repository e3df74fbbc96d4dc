#include "strategy/chain/persistent.h"

#include <algorithm>
#include <limits>

namespace lowtide::strategy::chain {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

/// Calls `visit` for each state that may be stored on the path from s, with the block of the state,
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

/// Drops unread reruns of forward stages.
std::vector<OpId> without_unread(const remat::StageGraph& graph, const std::vector<int>& stages) {
  std::vector<int> runs(graph.num_stages());
  for (int i : stages) ++runs[i];
  std::vector<bool> wanted(graph.num_values());
  std::vector<OpId> order;
  for (auto i = stages.rbegin(); i != stages.rend(); ++i) {
    const remat::Stage& stage = graph.stage(*i);
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
    : chain_(chain),
      tapes_(tapes),
      unit_(std::max<Bytes>(1, available / slots)),
      slots_(slots),
      costs_(2 * static_cast<std::size_t>(chain.num_blocks()) * chain.num_blocks()) {
  for (int length = 0; length < chain.num_blocks(); ++length) {
    for (int s = 0; s + length < chain.num_blocks(); ++s) {
      complete_ = complete_ && !control.should_stop();
      for (bool next_held : {false, true}) {
        if (complete_) solve({s, s + length, next_held});
      }
    }
  }
}

int PersistentProgram::up(Bytes bytes) const {
  const Bytes slots = (std::max<Bytes>(bytes, 0) + unit_ - 1) / unit_;
  return static_cast<int>(std::min<Bytes>(slots, slots_ + 1));
}

void PersistentProgram::solve(Span span) {
  Costs costs(static_cast<std::size_t>(slots_) + 1, kNever);
  const bool nothing_behind = is_first(span) && span.next_held;
  if (!nothing_behind) {
    offer_tapes(span, costs);
    offer_splits(span, costs);
  }
  costs_[index(span)] = std::move(costs);
}

const Run& PersistentProgram::forward(const Tape& tape, Span span) const {
  if (is_first(span)) return tape.first;
  if (span.first < span.last) return tape.make_and_go_on;
  return span.next_held ? tape.make_beside_next : tape.make;
}

int PersistentProgram::slots_for(const Tape& tape, Span span) const {
  const int ahead = up(chain_.gradient_bytes(span.last) + forward(tape, span).peak);
  if (span.first < span.last) {
    return std::max({ahead, up(tape.held), up(tape.backward.peak) - returned(span)});
  }
  return std::max(ahead, up(span.next_held ? tape.backward_peak_beside_next : tape.backward.peak));
}

int PersistentProgram::returned(Span span) const {
  return span.next_held ? up(chain_.state_bytes(span.last + 1, span.first)) : 0;
}

double PersistentProgram::tape_cost(const Tape& tape, Span span) const {
  return tape.backward.cost + (is_first(span) ? 0 : forward(tape, span).cost);
}

void PersistentProgram::offer_tapes(Span span, Costs& costs) const {
  const bool is_leaf = span.first == span.last;
  for (const Tape& tape : tapes_[span.first]) {
    const double cost = tape_cost(tape, span);
    const int needed = slots_for(tape, span);
    if (is_leaf) {
      for (int m = needed; m <= slots_; ++m) costs[m] = std::min(costs[m], cost);
      continue;
    }
    const Costs& rest = at({span.first + 1, span.last, span.next_held});
    const int held = up(tape.held);
    for (int m = needed; m <= slots_; ++m) costs[m] = std::min(costs[m], cost + rest[m - held]);
  }
}

PersistentProgram::Behind PersistentProgram::behind(Span span, int stored, int held,
                                                    int slots) const {
  const double anew = at({span.first, stored - 1, false})[slots];
  if (slots < held) return {anew, slots, false};
  const double beside = at({span.first, stored - 1, true})[slots - held];
  return beside < anew ? Behind{beside, slots - held, true} : Behind{anew, slots, false};
}

void PersistentProgram::offer_splits(Span span, Costs& costs) const {
  const int more = returned(span);
  const auto visit = [&](int stored, Bytes needed, double cost) {
    const int held = up(chain_.state_bytes(stored, span.first));
    const Costs& ahead = at({stored, span.last, span.next_held});
    for (int m = std::max(up(needed), held); m <= slots_; ++m) {
      const double after = behind(span, stored, held, std::min(m + more, slots_)).cost;
      costs[m] = std::min(costs[m], cost + ahead[m - held] + after);
    }
  };
  for_each_split(chain_, span.first, span.last, is_first(span), visit);
}

/// Finds the choice that led to the cost.
PersistentProgram::Choice PersistentProgram::choice(Span span, int slots) const {
  const double target = at(span)[slots];
  const bool is_leaf = span.first == span.last;
  Choice result;
  for (const Tape& tape : tapes_[span.first]) {
    if (slots < slots_for(tape, span)) continue;
    result.slots = is_leaf ? 0 : slots - up(tape.held);
    const Span rest{span.first + 1, span.last, span.next_held};
    const double cost = tape_cost(tape, span);
    if ((is_leaf ? cost : cost + at(rest)[result.slots]) != target) continue;
    result.tape = static_cast<int>(&tape - tapes_[span.first].data());
    return result;
  }
  const auto visit = [&](int stored, Bytes needed, double cost) {
    const int held = up(chain_.state_bytes(stored, span.first));
    if (result.stored != 0 || slots < std::max(up(needed), held)) return;
    const double ahead = at({stored, span.last, span.next_held})[slots - held];
    const Behind after = behind(span, stored, held, std::min(slots + returned(span), slots_));
    if (cost + ahead + after.cost != target) return;
    result = {kNone, slots - held, stored, after.slots, after.keep};
  };
  for_each_split(chain_, span.first, span.last, is_first(span), visit);
  return result;
}

void PersistentProgram::emit(Span span, int slots, std::vector<int>& stages) const {
  const auto append = [&](const Run& run) {
    stages.insert(stages.end(), run.stages.begin(), run.stages.end());
  };
  const Choice chosen = choice(span, slots);
  if (chosen.tape != kNone) {
    const Tape& tape = tapes_[span.first][chosen.tape];
    append(forward(tape, span));
    if (span.first < span.last) {
      emit({span.first + 1, span.last, span.next_held}, chosen.slots, stages);
    }
    append(tape.backward);
    return;
  }
  const bool first = is_first(span);
  append(chain_.start(span.first, first));
  for (int k = span.first + 1; k < chosen.stored; ++k) append(chain_.pass(k, first));
  emit({chosen.stored, span.last, span.next_held}, chosen.slots, stages);
  emit({span.first, chosen.stored - 1, chosen.keep}, chosen.slots_after, stages);
}

std::optional<int> PersistentProgram::fewest_slots() const {
  const Costs& costs = at(whole());
  const auto found = std::ranges::find_if(costs, [](double cost) { return cost < kNever; });
  if (found == costs.end()) return std::nullopt;
  return static_cast<int>(found - costs.begin());
}

std::vector<OpId> PersistentProgram::order(int slots) const {
  std::vector<int> stages;
  emit(whole(), slots, stages);
  return without_unread(chain_.graph(), stages);
}

bool offer_persistent(const PlanRequest& request, const BlockChain& chain,
                      const std::vector<std::vector<Tape>>& tapes, int slots, Trials& trials) {
  const Bytes most = remat::keep_all_peak(chain.graph()) - chain.graph().resident_bytes();
  const PersistentProgram coarse(chain, tapes, most, slots, request.control);
  if (!coarse.complete()) return false;
  const auto smallest = coarse.fewest_slots();
  if (!smallest || trials.offer(coarse.order(*smallest)) > request.budget_bytes) return true;

  // Some values die earlier than the program assumes: more than the available memory may work.
  constexpr double kMore = 1.25;
  const Bytes available = std::max<Bytes>(1, request.budget_bytes - chain.fixed_bytes());
  const auto range = static_cast<Bytes>(kMore * static_cast<double>(available));
  const PersistentProgram program(chain, tapes, range, slots, request.control);
  if (!program.complete()) return false;
  int low = program.fewest_slots().value_or(slots + 1), high = slots;
  while (low <= high && !request.control.should_stop()) {
    const int middle = low + (high - low) / 2;
    if (trials.offer(program.order(middle)) <= request.budget_bytes) {
      low = middle + 1;
    } else {
      high = middle - 1;
    }
  }
  return true;
}

}  // namespace lowtide::strategy::chain
