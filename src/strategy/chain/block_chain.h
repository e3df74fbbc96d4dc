#pragma once

#include <vector>

#include "strategy/checkpointing.h"

namespace lowtide::strategy::chain {

/// A strategy's own options, and those of all strategies over a chain: into how many parts memory
/// is divided, and the most blocks, which may be set to `fewest_blocks` or more.
std::vector<StrategyOption> with_chain_options(std::vector<StrategyOption> own, int fewest_blocks);

/// Stages to run one after the other.
struct Run {
  std::vector<int> stages = {};
  double cost = 0;  ///< of forward stages; a first run has this cost in any case
  Bytes peak = 0;   ///< beyond bytes held before; for forward stages also beyond the gradients
};

/// One choice for the backward part of a block: the values of its forward part that are held until
/// then, and the run of the backward part, which makes missing values again.
struct Tape {
  Run make;                             ///< makes the held values from the block's state
  Run make_beside_next;                 ///< the same, when the next block's state is held already
  Run make_and_go_on;                   ///< also makes the next block's state
  Run first;                            ///< all stages of the block, once
  Bytes held = 0;                       ///< bytes, the next block's state included
  Run backward;                         ///< peak: includes held values and gradients
  Bytes backward_peak_beside_next = 0;  ///< the same without the next block's state
};

/// A training step as a chain: blocks of the forward pass between articulation points. Block j
/// starts from *state* j, the values that cross the point before it; state 0 is empty. The backward
/// pass goes through the blocks from last to first.
///
/// Values that do not fit the chain are held throughout: values that may not be made again, and
/// values that the backward part of another block reads.
class BlockChain {
 public:
  /// At most this many blocks: leaves points out evenly. `cut` must outlive the chain.
  BlockChain(const CutGraph& cut, int most_blocks);

  int num_blocks() const { return static_cast<int>(blocks_.size()); }
  const std::vector<bool>& kept() const { return kept_; }  ///< per value: held throughout
  /// Bytes of all values that are held throughout, resident tensors included.
  Bytes fixed_bytes() const { return fixed_bytes_; }
  /// Bytes of gradients that are live when the backward part of the block begins.
  Bytes gradient_bytes(int block) const { return block_at(block).gradient_bytes; }
  const std::vector<int>& state(int block) const { return block_at(block).state; }
  /// Bytes of state `block`, without the values that (earlier) state `other` holds already.
  Bytes state_bytes(int block, int other) const;
  /// Runs through a block to the next state and drops its own state; `first`: not a rerun.
  const Run& pass(int block, bool first) const { return block_at(block).pass[first]; }
  /// The same, but also holds its own state.
  const Run& start(int block, bool first) const { return block_at(block).start[first]; }
  /// Values of the block that its backward part reads.
  const std::vector<int>& read_back(int block) const { return block_at(block).read_back; }
  /// The tape that holds `values`, any values of the block, in ascending order.
  Tape tape(int block, const std::vector<int>& values) const;
  const remat::StageGraph& graph() const { return graph_; }
  /// Stages of the forward part, then of the backward part.
  std::vector<int> stages(int block) const;

 private:
  struct Block {
    int begin = 0, end = 0;                    // forward stages
    int backward_begin = 0, backward_end = 0;  // backward stages
    std::vector<int> state = {};
    std::vector<int> read_back = {};
    Bytes gradient_bytes = 0;
    Run pass[2], start[2];
  };
  struct Step {
    int stage;
    Bytes beside;  // bytes of gradients and workspace
  };

  void cut_forward(const std::vector<Cut>& points, int most_blocks);
  void cut_backward();
  void find_states();
  void keep_foreign();
  void find_read_back();
  void measure_gradients();
  void make_runs();

  const Block& block_at(int j) const { return blocks_[static_cast<std::size_t>(j)]; }
  int last_entered(int value) const;
  bool in_state(int value, int block) const;
  bool counts(int value) const;
  Bytes gradients_before(int stage) const;
  /// Stages of the block that make wanted values that are not held, from state and kept values.
  std::vector<int> makers(int block, const std::vector<int>& wanted,
                          const std::vector<int>& held) const;
  std::vector<Step> backward_steps(int block, const std::vector<int>& held) const;
  Run forward_run(std::vector<int> stages, const std::vector<int>& outside,
                  const std::vector<int>& alive, const std::vector<int>& wanted) const;
  Bytes peak(const std::vector<Step>& steps, const std::vector<int>& outside,
             const std::vector<int>& alive, const std::vector<int>& wanted) const;

  const remat::StageGraph& graph_;
  int forward_end_;
  std::vector<Block> blocks_;
  std::vector<int> block_of_;     // per stage
  std::vector<bool> kept_;        // per value
  std::vector<bool> useful_;      // per value: not kept, and the backward pass needs it again
  std::vector<Bytes> gradients_;  // per stage: late_bytes()
  Bytes fixed_bytes_ = 0;
};

}  // namespace lowtide::strategy::chain
