#pragma once

#include <optional>
#include <vector>

#include "base/control.h"
#include "strategy/chain/block_chain.h"

namespace lowtide::strategy::chain {

/// The optimal persistent schedules of a chain, by dynamic programming over the blocks and over the
/// memory in slots (Beaumont, Eyraud-Dubois, Herrmann, Joly, Shilova, "Optimal checkpointing for
/// heterogeneous chains", 2019). Persistent: a stored state stays until the backward part of its
/// block is done. There are two ways from state s through the backward parts of blocks t .. s. Run
/// forward and store a later state, solve from there, and start again from s. Or hold a tape of
/// block s on the first run, solve from state s + 1, and run the backward part of s.
///
/// Beyond the paper, a stored state may also stay until the block before it is done. The tape of
/// that block then need not make it again: on chains of single ops that saves half of the reruns.
///
/// O(blocks^3 x slots), O(blocks^2 x slots) memory.
class PersistentProgram {
 public:
  /// `tapes[j]`: the tapes of block j to choose from. `available`: bytes apart from the chain's
  /// fixed bytes. All references must outlive the program.
  PersistentProgram(const BlockChain& chain, const std::vector<std::vector<Tape>>& tapes,
                    Bytes available, int slots, const Control& control);

  /// False when `control` said stop; then the program has no answers.
  bool complete() const { return complete_; }
  /// The fewest slots that suffice; nothing if `slots` do not.
  std::optional<int> fewest_slots() const;
  /// Executions of the cheapest schedule within this many slots, which must suffice.
  std::vector<OpId> order(int slots) const;

 private:
  using Costs = std::vector<double>;  // per number of slots

  /// From state `first` through the backward parts of `last` .. `first`.
  struct Span {
    int first, last;
    bool next_held;  ///< the state after `last` is held until the backward part of `last` is done
  };

  struct Choice {
    int tape = kNone;  // which tape of the first block; kNone: store a state instead
    int slots = 0;     // for the next part of the schedule
    int stored = 0;    // the block whose state is stored
    int slots_after = 0;
    bool keep = false;  // keep the stored state for the block before it
  };

  /// The cheaper way to continue from the first state when the blocks from `stored` on are done.
  struct Behind {
    double cost;
    int slots;
    bool keep;
  };

  void solve(Span span);
  void offer_tapes(Span span, Costs& costs) const;
  void offer_splits(Span span, Costs& costs) const;
  Behind behind(Span span, int stored, int held, int slots) const;
  Choice choice(Span span, int slots) const;
  void emit(Span span, int slots, std::vector<int>& stages) const;
  Span whole() const { return {0, chain_.num_blocks() - 1, false}; }
  bool is_first(Span span) const { return span.last == chain_.num_blocks() - 1; }
  const Run& forward(const Tape& tape, Span span) const;
  int up(Bytes bytes) const;  // slots that bytes take, rounded up
  int slots_for(const Tape& tape, Span span) const;
  int returned(Span span) const;  // slots freed when the last block and the next state are done
  double tape_cost(const Tape& tape, Span span) const;
  const Costs& at(Span span) const { return costs_[index(span)]; }
  std::size_t index(Span span) const {
    const auto blocks = static_cast<std::size_t>(chain_.num_blocks());
    return (span.next_held * blocks + span.first) * blocks + span.last;
  }

  const BlockChain& chain_;
  const std::vector<std::vector<Tape>>& tapes_;
  Bytes unit_;
  int slots_;
  bool complete_ = true;
  std::vector<Costs> costs_;  // by index(span)
};

/// Offers the order of a chain with these tapes that needs the least memory, and cheaper ones if
/// that fits. Returns false when stopped.
bool offer_persistent(const PlanRequest& request, const BlockChain& chain,
                      const std::vector<std::vector<Tape>>& tapes, int slots, Trials& trials);

}  // namespace lowtide::strategy::chain
