#include "strategy/search/proof.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "bounds/held_sets.h"
#include "plan/in_place.h"
#include "plan/lower.h"
#include "remat/event_plan.h"

namespace lowtide::strategy::search {
namespace {

/// Costs that differ by less are equal up to rounding.
constexpr double kSameShare = 1e-9;

/// Values below these shares of the budget are held for free, one share after the other: the fewer
/// values may be dropped, the fewer states, and the answer is usually the same.
constexpr double kFreeShares[] = {0.01, 0.003, 0.001, 0.0003, 0};

/// The first search allows this share of the gap above the bound; the step doubles each time.
constexpr double kFirstStep = 1.0 / 8;

class Prover {
 public:
  Prover(const PlanRequest& request, const remat::StageGraph& graph,
         const bounds::PriceBound& bound, double cost, std::int64_t states, const Control& control)
      : request_(request),
        graph_(graph),
        completion_(graph, bound),
        control_(control),
        states_(states) {
    proof_.bound = bound.value();
    proof_.cost = cost;
  }

  Proof run() {
    for (double share : kFreeShares) {
      const auto room = static_cast<double>(request_.budget_bytes - graph_.resident_bytes());
      bounds::HeldSetProgram program(graph_, request_.budget_bytes, completion_,
                                     static_cast<Bytes>(share * room));
      if (!climb(program)) break;
    }
    proof_.staged_bound = proof_.bound;
    return std::move(proof_);
  }

 private:
  double gap() const { return proof_.cost - proof_.bound; }
  bool is_closed() const { return gap() <= 5 * kSameShare * proof_.cost; }

  /// Looks for plans of increasing cost. Returns whether a finer program may find more.
  bool climb(bounds::HeldSetProgram& program) {
    for (double step = kFirstStep * gap(); !is_closed(); step *= 2) {
      const double below = std::min(proof_.cost * (1 - kSameShare), proof_.bound + step);
      const bounds::HeldSetAnswer answer = program.run({below, states_}, control_);
      proof_.bound = std::max(proof_.bound, answer.bound);
      states_ -= answer.states;
      if (!answer.complete) return false;
      control_.report(fmt::format("bound {:.3f}% over sets of held values",
                                  100 * (proof_.bound / graph_.required_cost() - 1)));
      if (!answer.executions) continue;
      take(*answer.executions);
      return !is_closed();
    }
    return false;
  }

  /// The program is about all plans, and knows no views: those of what it makes again may be lost.
  bool keeps_views(const std::vector<OpId>& executions) const {
    return std::ranges::all_of(remat::events_of(graph_, executions), [&](remat::Event event) {
      return graph_.may_rerun(event.op, event.stage);
    });
  }

  void take(const std::vector<OpId>& executions) {
    if (!keeps_views(executions)) return;
    const Plan plan = with_in_place(request_.graph, lower(request_.graph, executions));
    if (plan.peak_bytes > request_.budget_bytes || plan.cost >= proof_.cost) return;
    proof_.cost = plan.cost;
    proof_.executions = executions;
  }

  const PlanRequest& request_;
  const remat::StageGraph& graph_;
  const bounds::CompletionBound completion_;
  const Control& control_;
  std::int64_t states_;
  Proof proof_;
};

}  // namespace

bool can_prove(const remat::StageGraph& graph) {
  return bounds::HeldSetProgram::is_small_enough(graph);
}

Proof prove(const PlanRequest& request, const remat::StageGraph& graph,
            const bounds::PriceBound& bound, double cost, std::int64_t states,
            const Control& control) {
  return Prover(request, graph, bound, cost, states, control).run();
}

}  // namespace lowtide::strategy::search
