#include "strategy/chain/block_chain.h"

#include <algorithm>
#include <utility>

namespace lowtide::strategy::chain {
namespace {

std::vector<int> joined(std::vector<int> a, const std::vector<int>& b) {
  a.insert(a.end(), b.begin(), b.end());
  std::ranges::sort(a);
  a.erase(std::ranges::unique(a).begin(), a.end());
  return a;
}

}  // namespace

std::vector<StrategyOption> with_chain_options(std::vector<StrategyOption> own, int fewest_blocks) {
  own.push_back(integer_option("slots", "parts into which memory is divided", 500, {10, 5000}));
  own.push_back(integer_option("blocks", "at most; articulation points are left out evenly", 100,
                               {static_cast<double>(fewest_blocks), 400}));
  return own;
}

BlockChain::BlockChain(const CutGraph& cut, int most_blocks)
    : graph_(cut.graph),
      forward_end_(cut.forward_end),
      block_of_(cut.graph.num_stages()),
      kept_(
          kept_in_any_case(cut.graph, cut.forward_end, std::vector<bool>(cut.graph.num_values()))) {
  cut_forward(cut.points, most_blocks);
  cut_backward();
  keep_foreign();
  find_states();
  find_read_back();
  measure_gradients();
  make_runs();
}

void BlockChain::cut_forward(const std::vector<Cut>& points, int most_blocks) {
  const auto cuts = static_cast<int>(points.size());
  const int blocks = std::min(cuts + 1, most_blocks);
  blocks_.resize(blocks);
  for (int j = 1; j < blocks; ++j) {
    const std::int64_t point = std::int64_t{cuts + 1} * j / blocks - 1;
    blocks_[j].begin = blocks_[j - 1].end = points[point].stage;
  }
  blocks_.back().end = forward_end_;
  for (int j = 0; j < blocks; ++j) {
    for (int i = blocks_[j].begin; i < blocks_[j].end; ++i) block_of_[i] = j;
  }
}

/// A value can be read in the backward part of the block that made it, and of blocks that have it
/// in their state. A stage belongs to the latest block that suits all its inputs.
void BlockChain::cut_backward() {
  int now = num_blocks() - 1;
  std::vector<int> begins(num_blocks(), graph_.end());
  for (int t = forward_end_; t < graph_.end(); ++t) {
    int made = kNone, suits = now;
    for (int v : graph_.stage(t).inputs) {
      if (!counts(v)) continue;
      made = std::max(made, block_of_[graph_.value(v).producer]);
      suits = std::min(suits, last_entered(v));
    }
    now = std::min(now, std::max(made, suits));
    block_of_[t] = now;
    begins[now] = std::min(begins[now], t);
  }
  int end = graph_.end();
  for (int j = 0; j < num_blocks(); ++j) {
    blocks_[j].backward_end = end;
    end = blocks_[j].backward_begin = std::min(begins[j], end);
  }
}

/// The block of the last forward reader of the value, or else the one that makes it.
int BlockChain::last_entered(int value) const {
  const remat::StageValue& made = graph_.value(value);
  const auto end = std::ranges::lower_bound(made.readers, forward_end_);
  return block_of_[end == made.readers.begin() ? made.producer : *(end - 1)];
}

bool BlockChain::in_state(int value, int block) const {
  const remat::StageValue& made = graph_.value(value);
  if (made.producer >= blocks_[block].begin) return false;
  const auto reader = std::ranges::lower_bound(made.readers, blocks_[block].begin);
  return reader != made.readers.end() && *reader < forward_end_;
}

void BlockChain::keep_foreign() {
  for (int v = 0; v < graph_.num_values(); ++v) {
    const remat::StageValue& value = graph_.value(v);
    if (value.producer >= forward_end_) continue;
    for (int reader : value.readers) {
      const int block = block_of_[reader];
      const bool explained = reader < forward_end_ || block == block_of_[value.producer] ||
                             (block > block_of_[value.producer] && in_state(v, block));
      if (!explained) kept_[v] = true;
    }
  }
  fixed_bytes_ = graph_.resident_bytes();
  for (const remat::StageValue& value : graph_.values()) {
    const bool is_kept = kept_[static_cast<std::size_t>(&value - graph_.values().data())];
    if (value.producer < forward_end_ && is_kept) fixed_bytes_ += value.bytes;
  }
}

void BlockChain::find_states() {
  useful_.assign(graph_.num_values(), false);
  for (int i = forward_end_ - 1; i >= 0; --i) {
    const remat::Stage& stage = graph_.stage(i);
    for (int v : stage.outputs) {
      if (!kept_[v] && graph_.value(v).last_reader() >= forward_end_) useful_[v] = true;
    }
    if (std::ranges::none_of(stage.outputs, [&](int v) { return useful_[v]; })) continue;
    for (int in : stage.inputs) useful_[in] = !kept_[in];
  }
  for (int v = 0; v < graph_.num_values(); ++v) {
    const remat::StageValue& value = graph_.value(v);
    if (!useful_[v] || value.producer >= forward_end_) continue;
    for (int j = block_of_[value.producer] + 1; j < num_blocks() && in_state(v, j); ++j) {
      blocks_[j].state.push_back(v);
    }
  }
}

void BlockChain::find_read_back() {
  for (int v = 0; v < graph_.num_values(); ++v) {
    const remat::StageValue& value = graph_.value(v);
    if (!useful_[v] || value.producer >= forward_end_) continue;
    const int block = block_of_[value.producer];
    const auto back = std::ranges::lower_bound(value.readers, forward_end_);
    if (std::any_of(back, value.readers.end(), [&](int t) { return block_of_[t] == block; })) {
      blocks_[block].read_back.push_back(v);
    }
  }
}

void BlockChain::measure_gradients() {
  gradients_ = late_bytes(graph_, forward_end_);
  for (Block& block : blocks_) block.gradient_bytes = gradients_before(block.backward_begin);
}

Bytes BlockChain::gradients_before(int stage) const {
  return gradients_[stage] - (stage < forward_end_ ? 0 : output_bytes(graph_, stage));
}

Bytes BlockChain::state_bytes(int block, int other) const {
  Bytes bytes = 0;
  for (int v : blocks_[block].state) {
    if (graph_.value(v).producer >= blocks_[other].begin) bytes += graph_.value(v).bytes;
  }
  return bytes;
}

std::vector<int> BlockChain::stages(int block) const {
  std::vector<int> result;
  for (int i = blocks_[block].begin; i < blocks_[block].end; ++i) result.push_back(i);
  for (int t = blocks_[block].backward_begin; t < blocks_[block].backward_end; ++t) {
    result.push_back(t);
  }
  return result;
}

std::vector<int> BlockChain::makers(int block, const std::vector<int>& wanted,
                                    const std::vector<int>& held) const {
  std::vector<bool> missing(graph_.num_values());
  const auto want = [&](int v) {
    const bool here = !counts(v) || graph_.value(v).producer < blocks_[block].begin;
    if (!here && !std::ranges::binary_search(held, v)) missing[v] = true;
  };
  std::ranges::for_each(wanted, want);
  std::vector<int> result;
  for (int i = blocks_[block].end - 1; i >= blocks_[block].begin; --i) {
    const remat::Stage& stage = graph_.stage(i);
    if (std::ranges::none_of(stage.outputs, [&](int v) { return missing[v]; })) continue;
    result.push_back(i);
    std::ranges::for_each(stage.inputs, want);
  }
  std::ranges::reverse(result);
  return result;
}

bool BlockChain::counts(int value) const {
  return graph_.value(value).producer < forward_end_ && !kept_[value];
}

/// Counts values as counts() says, except those `outside`. Values `alive` exist at the start,
/// values `wanted` at the end; others exist from their run to their last use.
Bytes BlockChain::peak(const std::vector<Step>& steps, const std::vector<int>& outside,
                       const std::vector<int>& alive, const std::vector<int>& wanted) const {
  const int length = static_cast<int>(steps.size());
  std::vector<int> last_use(graph_.num_values(), kNone);
  for (int at = 0; at < length; ++at) {
    for (int v : graph_.stage(steps[at].stage).inputs) last_use[v] = at;
  }
  for (int v : wanted) last_use[v] = length;
  std::vector<bool> skip(graph_.num_values()), here(graph_.num_values());
  for (int v : outside) skip[v] = true;
  Bytes live = 0, most = 0;
  const auto add = [&](int v) {
    if (!counts(v) || skip[v] || here[v]) return;
    here[v] = true;
    live += graph_.value(v).bytes;
  };
  const auto drop_after = [&](int v, int at) {
    if (!here[v] || last_use[v] > at) return;
    here[v] = false;
    live -= graph_.value(v).bytes;
  };
  for (int v : alive) add(v);
  for (int at = 0; at < length; ++at) {
    const remat::Stage& stage = graph_.stage(steps[at].stage);
    for (int v : stage.outputs) add(v);
    most = std::max(most, live + steps[at].beside);
    for (int v : stage.inputs) drop_after(v, at);
    for (int v : stage.outputs) drop_after(v, at);
  }
  return std::max(most, live);
}

Run BlockChain::forward_run(std::vector<int> stages, const std::vector<int>& outside,
                            const std::vector<int>& alive, const std::vector<int>& wanted) const {
  std::vector<Step> steps;
  Run run{std::move(stages)};
  for (int i : run.stages) {
    run.cost += graph_.stage(i).cost;
    steps.push_back({i, graph_.stage(i).workspace});
  }
  run.peak = peak(steps, outside, alive, wanted);
  return run;
}

void BlockChain::make_runs() {
  for (int j = 0; j + 1 < num_blocks(); ++j) {
    Block& block = blocks_[j];
    const std::vector<int>& next = blocks_[j + 1].state;
    for (bool first : {false, true}) {
      std::vector<int> stages = makers(j, next, {});
      if (first) {
        stages.clear();
        for (int i = block.begin; i < block.end; ++i) stages.push_back(i);
      }
      block.start[first] = forward_run(stages, block.state, {}, next);
      block.pass[first] = forward_run(stages, {}, block.state, next);
    }
  }
}

/// Walks through the backward part; makes missing inputs of a stage again right before it.
std::vector<BlockChain::Step> BlockChain::backward_steps(int j,
                                                         const std::vector<int>& held) const {
  const Block& block = block_at(j);
  std::vector<int> here = held;
  std::vector<Step> steps;
  for (int t = block.backward_begin; t < block.backward_end; ++t) {
    const remat::Stage& stage = graph_.stage(t);
    for (int i : makers(j, stage.inputs, here)) {
      steps.push_back({i, gradients_before(t) + graph_.stage(i).workspace});
      here = joined(std::move(here), graph_.stage(i).outputs);
    }
    steps.push_back({t, gradients_[t] + stage.workspace});
  }
  return steps;
}

Tape BlockChain::tape(int j, const std::vector<int>& values) const {
  const Block& block = block_at(j);
  const std::vector<int> next = j + 1 < num_blocks() ? blocks_[j + 1].state : std::vector<int>{};
  const std::vector<int> with_next = joined(values, next);
  Tape result;
  const std::vector<int> beside = joined(block.state, next);
  result.make = forward_run(makers(j, values, {}), block.state, {}, values);
  result.make_beside_next = forward_run(makers(j, values, next), beside, {}, values);
  result.make_and_go_on = forward_run(makers(j, with_next, {}), block.state, {}, with_next);
  std::vector<int> all;
  for (int i = block.begin; i < block.end; ++i) all.push_back(i);
  result.first = forward_run(std::move(all), block.state, {}, with_next);
  for (int v : with_next) {
    if (graph_.value(v).producer >= block.begin) result.held += graph_.value(v).bytes;
  }
  const std::vector<Step> steps = backward_steps(j, values);
  for (const Step& step : steps) {
    result.backward.stages.push_back(step.stage);
    if (step.stage < forward_end_) result.backward.cost += graph_.stage(step.stage).cost;
  }
  result.backward.peak = peak(steps, block.state, values, {});
  result.backward_peak_beside_next = peak(steps, beside, values, {});
  return result;
}

}  // namespace lowtide::strategy::chain
