#pragma once

#include <optional>
#include <vector>

#include "base/control.h"
#include "strategy/chain/block_chain.h"

namespace lowtide {

/// The optimal persistent schedules of a chain, by dynamic programming over the blocks and over the
/// memory in slots (Beaumont, Eyraud-Dubois, Herrmann, Joly, Shilova, "Optimal checkpointing for
/// heterogeneous chains", 2019). Persistent: what is stored stays until the backward part of its
/// block is done. To get from state s through the backward parts of blocks t .. s, either run
/// forward and store a later state, solve from there, and start again from s; or hold a tape of
/// block s on the way, solve from state s + 1, and run the backward part of s.
///
/// O(blocks^3 x slots), O(blocks^2 x slots) memory.
class PersistentProgram {
 public:
  /// `tapes[j]`: the tapes of block j to choose from. `available`: bytes beside the chain's fixed
  /// ones. All references must outlive the program.
  PersistentProgram(const BlockChain& chain, const std::vector<std::vector<Tape>>& tapes,
                    Bytes available, int slots, const Control& control);

  /// False when `control` said stop; then there are no answers.
  bool complete() const { return complete_; }
  /// The fewest slots that do; nothing if not even all of them.
  std::optional<int> fewest_slots() const;
  /// What `bytes` give, rounded down.
  int slots_within(Bytes bytes) const;
  /// Executions of the cheapest schedule within so many slots, which must do.
  std::vector<OpId> order(int slots) const;

 private:
  using Costs = std::vector<double>;  // per number of slots

  struct Choice {
    int tape = kNone;   // which tape of the first block; kNone: store a state instead
    int stored = 0;     // the block whose state is stored
    int slots = 0;      // left for what follows
  };

  void solve(int s, int t);
  void offer_tapes(int s, int t, Costs& costs) const;
  void offer_splits(int s, int t, Costs& costs) const;
  Choice choice(int s, int t, int slots) const;
  void emit(int s, int t, int slots, std::vector<int>& stages) const;
  int up(Bytes bytes) const;  // slots that bytes take, rounded up
  int slots_for(const Tape& tape, int s, int t) const;
  double tape_cost(const Tape& tape, int s, int t) const;
  bool is_first(int t) const { return t == chain_.num_blocks() - 1; }
  const Costs& at(int s, int t) const { return costs_[index(s, t)]; }
  std::size_t index(int s, int t) const {
    return static_cast<std::size_t>(s) * chain_.num_blocks() + t;
  }

  const BlockChain& chain_;
  const std::vector<std::vector<Tape>>& tapes_;
  Bytes unit_;
  int slots_;
  bool complete_ = true;
  std::vector<Costs> costs_;  // by index(s, t)
};

/// The cheapest order of a chain with these tapes that fits, else the leanest, is offered.
/// Returns false when stopped.
bool offer_persistent(const PlanRequest& request, const BlockChain& chain,
                      const std::vector<std::vector<Tape>>& tapes, int slots, Trials& trials);

}  // namespace lowtide
