#include "strategy/checkpointing.h"
#include "strategy/lower_sets/family.h"
#include "strategy/lower_sets/program.h"

namespace lowtide::strategy {
namespace {

std::vector<lower_sets::LowerSet> family(const remat::StageGraph& graph, int forward_end, int exact,
                                         int pruned) {
  auto all = lower_sets::all_lower_sets(graph, forward_end, exact);
  return all ? std::move(*all) : lower_sets::pruned_lower_sets(graph, forward_end, pruned);
}

class LowerSets {
 public:
  explicit LowerSets(const PlanRequest& request)
      : request_(request),
        graph_(request.graph),
        end_(forward_end(graph_)),
        program_(graph_, end_,
                 kept_in_any_case(graph_, end_, std::vector<bool>(graph_.num_values())),
                 family(graph_, end_, static_cast<int>(request.options.at("exact")),
                        static_cast<int>(request.options.at("sets"))),
                 static_cast<int>(request.options.at("slots")), request.control),
        trials_(request) {}

  /// The program's memory differs from the replay's: the program rounds no bytes, but knows less
  /// about when values die. So the budget for the program is searched for.
  Decision decide() {
    trials_.offer(remat::stage_order(graph_));
    Bytes most = remat::keep_all_peak(graph_);
    const Bytes least =
        bisect(0, most, [&](Bytes bytes) { return program_.cheapest(bytes).empty(); });
    if (program_.cheapest(least).empty()) return answer();
    try_within(least);
    bisect(least, most, [&](Bytes bytes) { return try_within(bytes) <= request_.budget_bytes; });
    return answer();
  }

 private:
  static constexpr Bytes kSteps = 500;

  /// The least amount, up to a step, at which `goes_on` is false.
  template <typename Test>
  Bytes bisect(Bytes low, Bytes high, Test goes_on) const {
    const Bytes step = high / kSteps + 1;
    while (high - low > step && !request_.control.should_stop()) {
      const Bytes middle = low + (high - low) / 2;
      (goes_on(middle) ? low : high) = middle;
    }
    return high;
  }

  Bytes try_within(Bytes bytes) {
    const Checkpoints chosen = program_.checkpoints(program_.cheapest(bytes));
    return trials_.offer(checkpointed_order(graph_, end_, chosen));
  }

  Decision answer() const {
    const bool stopped = request_.control.should_stop();
    return stopped ? trials_.stopped() : trials_.decision("a chain of lower sets");
  }

  const PlanRequest& request_;
  remat::StageGraph graph_;
  int end_;
  lower_sets::LowerSetProgram program_;
  Trials trials_;
};

Decision decide_by_lower_sets(const PlanRequest& request) { return LowerSets(request).decide(); }

}  // namespace

Strategy lower_sets_strategy() {
  return {
      .name = "lower-sets",
      .summary = "cuts the forward pass along a chain of lower sets, by dynamic programming",
      .guarantee = "the cheapest chain of the family, up to the rounding of time and its own "
                   "account of memory; the family is complete on small graphs",
      .paper = "Kusumoto, Inoue, Watanabe, Akiba, Koyama: A graph theoretic framework of "
               "recomputation algorithms for memory-efficient backpropagation, NeurIPS 2019",
      .options = {integer_option("exact", "all lower sets if they are no more than this", 300,
                                 {0, 1500}),
                  integer_option("sets", "else at most so many: for each op what it needs", 300,
                                 {2, 1500}),
                  integer_option("slots", "parts into which the time of a forward pass is divided",
                                 200, {10, 2000})},
      .decide = decide_by_lower_sets};
}

}  // namespace lowtide::strategy
