#include <algorithm>

#include "solver/knapsack.h"
#include "strategy/chain/persistent.h"
#include "strategy/min_cut/saved_values.h"

namespace lowtide::strategy {
namespace {

using Tapes = std::vector<std::vector<chain::Tape>>;

/// Makes a choice of tapes for each block: from all values that its backward part reads, to the
/// fewest bytes from which these can be made again.
class BlockTapes {
 public:
  BlockTapes(const Graph& graph, const CutGraph& cut, const chain::BlockChain& chain)
      : graph_(cut.graph),
        end_(cut.forward_end),
        chain_(chain),
        kept_(chain.kept()),
        cheap_(cheap_stages(graph, cut.graph, cut.forward_end)),
        tapes_(chain.num_blocks()),
        held_(chain.num_blocks()) {
    // A state is held while its block is solved. So the minimum cut splits into one per block.
    for (int j = 0; j < chain.num_blocks(); ++j) {
      for (int v : chain.state(j)) kept_[v] = true;
    }
  }

  /// Nothing when stopped.
  Tapes make(int levels, const Control& control) {
    for (bool cheap : {true, false}) {
      const std::vector<Question> questions = ask(cheap);
      for (int level = 0; level <= levels; ++level) {
        if (control.should_stop()) return {};
        add(once(questions, cheap, level, levels));
      }
    }
    return std::move(tapes_);
  }

 private:
  /// The cheap stages of a block, or the others, some of which may have to run only once.
  struct Question {
    std::vector<int> stages;
    solver::Knapsack knapsack;
  };

  std::vector<Question> ask(bool cheap) const {
    constexpr int kSlots = 200;
    std::vector<Question> questions;
    for (int j = 0; j < chain_.num_blocks(); ++j) {
      std::vector<int> stages;
      std::vector<solver::Knapsack::Item> items;
      for (int i : chain_.stages(j)) {
        if (i >= end_ || cheap_[i] != cheap) continue;
        stages.push_back(i);
        items.push_back({graph_.stage(i).cost, output_bytes(graph_, i)});
      }
      questions.push_back({std::move(stages), solver::Knapsack(items, kSlots)});
    }
    return questions;
  }

  /// While cheap stages are in question, all others run once; afterwards no cheap one has to.
  std::vector<bool> once(const std::vector<Question>& questions, bool cheap, int level,
                         int levels) const {
    std::vector<bool> result(end_, cheap);
    for (const Question& question : questions) {
      const int slots = question.knapsack.slots() * level / levels;
      const std::vector<bool> chosen = question.knapsack.chosen(slots);
      for (std::size_t k = 0; k < chosen.size(); ++k) result[question.stages[k]] = chosen[k];
    }
    return result;
  }

  void add(const std::vector<bool>& once) {
    const std::vector<bool> saved = min_cut::fewest_saved(graph_, end_, once, kept_);
    for (int j = 0; j < chain_.num_blocks(); ++j) {
      std::vector<int> held;
      for (int i : chain_.stages(j)) {
        for (int v : graph_.stage(i).outputs) {
          const bool is_state = kept_[v] && !chain_.kept()[v];
          const bool wanted =
              is_state ? std::ranges::binary_search(chain_.read_back(j), v) : saved[v] && !kept_[v];
          if (i < end_ && wanted) held.push_back(v);
        }
      }
      std::ranges::sort(held);
      if (std::ranges::find(held_[j], held) != held_[j].end()) continue;
      tapes_[j].push_back(chain_.tape(j, held));
      held_[j].push_back(std::move(held));
    }
  }

  const remat::StageGraph& graph_;
  int end_;
  const chain::BlockChain& chain_;
  std::vector<bool> kept_;  // includes all states
  std::vector<bool> cheap_;
  Tapes tapes_;
  std::vector<std::vector<std::vector<int>>> held_;  // per block and tape
};

Decision decide_by_blocks(const PlanRequest& request) {
  const CutGraph cut = cut_graph(request.graph);
  const chain::BlockChain chain(cut, static_cast<int>(request.options.at("blocks")));
  Trials trials(request);
  trials.offer(remat::stage_order(cut.graph));
  const int levels = static_cast<int>(request.options.at("levels"));
  const Tapes tapes = BlockTapes(request.graph, cut, chain).make(levels, request.control);
  const int slots = static_cast<int>(request.options.at("slots"));
  if (tapes.empty() || !chain::offer_persistent(request, chain, tapes, slots, trials)) {
    return trials.stopped();
  }
  return trials.decision("a chain of blocks");
}

}  // namespace

Strategy blocks_strategy() {
  return {.name = "blocks",
          .summary = "solves each block alone for several memories, and combines them as a chain",
          .guarantee = "the best persistent schedule of the chain with these solutions of its "
                       "blocks, up to the rounding of memory to slots",
          .paper = "the idea of Rockmate: Zhao, Le Hellard, Eyraud-Dubois, Gusak, Beaumont, ICML "
                   "2023; blocks are solved by minimum cuts",
          .options = chain::with_chain_options(
              {integer_option("levels", "solutions per block and kind of op", 8, {1, 100})}, 1),
          .decide = decide_by_blocks};
}

}  // namespace lowtide::strategy
