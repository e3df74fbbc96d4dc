#include "strategy/search/ends_proof.h"

#ifdef LOWTIDE_HIGHS

#include <fmt/format.h>

#include <algorithm>

#include "solver/highs.h"
#include "strategy/checkmate/incumbent.h"
#include "strategy/checkmate/refine.h"

namespace lowtide::strategy::search {
namespace {

/// Larger models need more time than a search should.
constexpr std::int64_t kMostRows = 30'000;

/// Each describes more stages than the one before.
constexpr int kMostSolves = 6;

/// HiGHS proves its bound up to this share.
constexpr double kRounding = 1e-9;

class EndsProver {
 public:
  EndsProver(const PlanRequest& request, const remat::StageGraph& graph,
             std::span<const remat::Event> events, double cost, std::int64_t nodes,
             const Control& control)
      : request_(request),
        graph_(graph),
        control_(control),
        nodes_(nodes),
        incumbent_(request, graph),
        inside_(graph.num_stages()) {
    incumbent_.offer(events);
    proof_.cost = cost;
  }

  Proof run() {
    for (int solve = 0; solve < kMostSolves && !control_.should_stop(); ++solve) {
      const std::vector<remat::Event> events = solve_once(solve == 0);
      if (incumbent_.exists() && incumbent_.cost() < proof_.cost * (1 - kRounding)) {
        proof_.cost = incumbent_.cost();
        proof_.executions = incumbent_.executions();
      }
      const bool more = !events.empty() && checkmate::describe_overfull(
                                               graph_, events, request_.budget_bytes, inside_);
      if (!more) break;
    }
    return std::move(proof_);
  }

 private:
  /// The solution, when the solver finished.
  std::vector<remat::Event> solve_once(bool is_first) {
    const checkmate::StageModel model(request_.graph, graph_, request_.budget_bytes,
                                      checkmate::Formulation::ends, inside_);
    solver::SolverRequest asked;
    asked.most_nodes = nodes_;
    if (incumbent_.exists()) asked.start = checkmate::start_for(model, incumbent_.events());
    asked.on_solution = [&](std::span<const double> values) {
      incumbent_.offer(model.events_of(values));
    };
    const solver::Solved solved = solver::solve_with_highs(model.program(), asked, control_);
    const double bound = std::min(model.cost_of(solved.bound) * (1 - kRounding), proof_.cost);
    if (is_first) proof_.bound = std::max(proof_.bound, bound);
    proof_.staged_bound = std::max(proof_.staged_bound, bound);
    control_.report(fmt::format("bound {:.3f}% by HiGHS{}",
                                100 * (bound / graph_.required_cost() - 1),
                                is_first ? "" : " for plans of stages"));
    const bool solves = solved.status == solver::Solved::Status::optimal && !solved.values.empty();
    if (!solves) return {};
    incumbent_.offer(model.events_of(solved.values));
    return model.events_of(solved.values);
  }

  const PlanRequest& request_;
  const remat::StageGraph& graph_;
  const Control& control_;
  std::int64_t nodes_;
  checkmate::Incumbent incumbent_;
  std::vector<bool> inside_;
  Proof proof_;
};

}  // namespace

Proof prove_by_program(const PlanRequest& request, const remat::StageGraph& graph,
                       std::span<const remat::Event> events, double cost, std::int64_t nodes,
                       const Control& control) {
  const auto size = checkmate::StageModel::size(request.graph, graph, request.budget_bytes,
                                                checkmate::Formulation::ends);
  if (size.rows > kMostRows) return {};
  const bool has_time = control.limit_seconds() <= 0 ||
                        control.left_seconds() > solver::relaxation_seconds(size.rows);
  if (!has_time) return {};
  return EndsProver(request, graph, events, cost, nodes, control).run();
}

}  // namespace lowtide::strategy::search

#else

namespace lowtide::strategy::search {

Proof prove_by_program(const PlanRequest&, const remat::StageGraph&, std::span<const remat::Event>,
                       double, std::int64_t, const Control&) {
  return {};
}

}  // namespace lowtide::strategy::search

#endif
