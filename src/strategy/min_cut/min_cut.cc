#include "solver/knapsack.h"
#include "strategy/checkpointing.h"
#include "strategy/min_cut/saved_values.h"

namespace lowtide::strategy {
namespace {

class MinCut {
 public:
  explicit MinCut(const PlanRequest& request)
      : request_(request),
        graph_(request.graph),
        end_(forward_end(graph_)),
        kept_(kept_in_any_case(graph_, end_, std::vector<bool>(graph_.num_values()))),
        cheap_(cheap_stages(request.graph, graph_, end_)),
        trials_(request) {}

  Decision decide() {
    trials_.offer(remat::stage_order(graph_));
    for (bool cheap : {true, false}) {
      if (!try_capacities(cheap)) return trials_.stopped();
    }
    return trials_.decision("a minimum cut");
  }

 private:
  /// The knapsack chooses which of the stages in question run only once, from all to none. First
  /// cheap stages are in question, while the others run once; then the others, while cheap ones may
  /// run again. False when stopped.
  bool try_capacities(bool cheap) {
    std::vector<int> stages;
    std::vector<solver::Knapsack::Item> items;
    for (int i = 0; i < end_; ++i) {
      if (cheap_[i] != cheap) continue;
      stages.push_back(i);
      items.push_back({graph_.stage(i).cost, output_bytes(graph_, i)});
    }
    const solver::Knapsack knapsack(items, static_cast<int>(request_.options.at("slots")));
    // The most that fits, by bisection.
    int low = 0, high = knapsack.slots();
    while (low <= high) {
      if (request_.control.should_stop()) return false;
      const int middle = low + (high - low) / 2;
      const std::vector<bool> chosen = knapsack.chosen(middle);
      std::vector<bool> once(end_, cheap);
      for (std::size_t k = 0; k < stages.size(); ++k) once[stages[k]] = chosen[k];
      if (fits(once)) {
        low = middle + 1;
      } else {
        high = middle - 1;
      }
    }
    return true;
  }

  bool fits(const std::vector<bool>& once) {
    const Checkpoints chosen{min_cut::fewest_saved(graph_, end_, once, kept_), lone_groups(graph_)};
    return trials_.offer(checkpointed_order(graph_, end_, chosen)) <= request_.budget_bytes;
  }

  const PlanRequest& request_;
  remat::StageGraph graph_;
  int end_;
  std::vector<bool> kept_;
  std::vector<bool> cheap_;
  Trials trials_;
};

Decision decide_by_min_cut(const PlanRequest& request) { return MinCut(request).decide(); }

}  // namespace

Strategy min_cut_strategy() {
  return {.name = "min-cut",
          .summary = "keeps the fewest bytes from which the backward pass can be run",
          .guarantee = "no set of kept values with the same ops run once has fewer bytes; which "
                       "ops run once is a knapsack that fills the budget",
          .paper = "the min-cut partitioner of PyTorch's functorch, with its memory budget",
          .options = {integer_option("slots", "parts into which memory is divided for the knapsack",
                                     1000, {10, 100000})},
          .decide = decide_by_min_cut};
}

}  // namespace lowtide::strategy
