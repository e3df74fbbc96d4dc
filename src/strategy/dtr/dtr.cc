#include "strategy/checkpointing.h"
#include "strategy/dtr/simulation.h"

namespace lowtide::strategy {
namespace {

class Dtr {
 public:
  explicit Dtr(const PlanRequest& request)
      : request_(request),
        graph_(request.graph),
        trials_(request),
        options_{.heuristic = static_cast<dtr::Heuristic>(request.options.at("heuristic")),
                 .limit = 0,
                 .most_cost = request.options.at("thrash") * graph_.required_cost()} {}

  Decision decide() {
    try_limit(request_.budget_bytes);
    if (!trials_.any_fits()) {
      trials_.offer(remat::stage_order(graph_));
      dtr::lower_limit(remat::keep_all_peak(graph_), request_.control,
                       [&](Bytes limit) { return try_limit(limit); });
    }
    return request_.control.should_stop() ? trials_.stopped() : trials_.decision("DTR");
  }

 private:
  /// Tries both values of drop_remade: each wins on some graphs.
  bool try_limit(Bytes limit) {
    options_.limit = limit;
    bool any = false;
    for (bool drop : {false, true}) {
      options_.drop_remade = drop;
      auto executions = dtr::simulate(graph_, options_, request_.control);
      if (!executions) continue;
      trials_.offer(std::move(*executions));
      any = true;
    }
    return any;
  }

  const PlanRequest& request_;
  remat::StageGraph graph_;
  Trials trials_;
  dtr::SimulationOptions options_;
};

Decision decide_by_dtr(const PlanRequest& request) { return Dtr(request).decide(); }

}  // namespace

Strategy dtr_strategy() {
  return {.name = "dtr",
          .summary = "runs the step online and evicts the value that is cheapest to do without",
          .guarantee = "any graph; what an executor would do that does not know the step",
          .paper = "Kirisame et al.: Dynamic tensor rematerialization, ICLR 2021",
          .options = {choice_option("heuristic",
                                    "which value is evicted: by its cost with that of its evicted "
                                    "neighbours, approximated (classes) or exact (full), or its "
                                    "own cost alone (local), each over bytes and time since the "
                                    "last use; the least recently used (lru); the largest (size); "
                                    "memory saved per cost (msps); or as classes by the time to "
                                    "the next use, which no executor knows (ahead)",
                                    {"classes", "full", "local", "lru", "size", "msps", "ahead"}),
                      number_option("thrash", "gives up at so many times the cost of a step", 4,
                                    {1, 1e6})},
          .decide = decide_by_dtr};
}

}  // namespace lowtide::strategy
