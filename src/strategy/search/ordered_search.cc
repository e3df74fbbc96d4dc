#include "strategy/search/ordered_search.h"

#include <fmt/format.h>

#include <utility>

#include "graph/permuted.h"
#include "ordering/lower_memory_order.h"
#include "plan/lower.h"

namespace lowtide::strategy::search {
namespace {

constexpr int kRounds = 4;
constexpr int kMovesPerExecution = 200;
/// Memory counts above this share of the budget: lowering it gives the search space to use.
constexpr double kNearBudget = 0.97;

/// Per op of the other order, and for the end.
std::vector<double> mapped_prices(std::span<const double> prices, std::span<const OpId> order) {
  if (prices.empty()) return {};
  std::vector<double> result;
  for (OpId id : order) result.push_back(prices[static_cast<std::size_t>(id)]);
  result.push_back(prices.back());
  return result;
}

}  // namespace

Decision ordered_search(const PlanRequest& request, std::span<const OpId> order,
                        const SearchEffort& effort) {
  const Graph other = permuted(request.graph, order);
  const std::vector<OpId> start = mapped(request.start, inverse(order));
  SearchEffort without_proof = effort;
  without_proof.states = 0;
  const std::vector<double> prices = mapped_prices(request.prices, order);
  Decision decision = local_search(
      {other, request.budget_bytes, request.options, request.control, start, nullptr, prices},
      without_proof);
  decision.executions = mapped(decision.executions, order);
  decision.smallest_executions = mapped(decision.smallest_executions, order);
  for (auto& executions : decision.alternatives) executions = mapped(executions, order);
  if (decision.outcome == Outcome::optimal) decision.outcome = Outcome::feasible;
  decision.lower_bound.reset();  // it refers to the other graph, and so does its certificate
  decision.certificate.reset();
  return decision;
}

Decision resequenced(const PlanRequest& request, Decision decision, const SearchEffort& effort) {
  const remat::StageGraph stages(request.graph);
  const auto limit = static_cast<Bytes>(kNearBudget * static_cast<double>(request.budget_bytes));
  double cost = lower(request.graph, decision.executions).cost;
  SearchEffort part = effort;
  part.moves /= 2 * kRounds;
  part.adapt_only = true;
  for (int round = 0; round < kRounds && !request.control.should_stop(); ++round) {
    part.seed += 1;
    const auto moves = static_cast<std::int64_t>(kMovesPerExecution * decision.executions.size());
    const std::vector<OpId> start = ordering::lower_memory_sequence(
        request.graph, stages, decision.executions, limit, {moves, part.seed}, request.control);
    const PlanRequest next{request.graph, request.budget_bytes, request.options, request.control,
                           start};
    const auto order = ordering::order_of(request.graph, stages, start);
    Decision found = order ? ordered_search(next, *order, part) : local_search(next, part);
    if (found.executions.empty()) continue;
    const double found_cost = lower(request.graph, found.executions).cost;
    if (found_cost >= cost) continue;
    cost = found_cost;
    found.lower_bound = decision.lower_bound;
    found.bound_model = decision.bound_model;
    found.certificate = decision.certificate;
    decision = std::move(found);
    request.control.report(
        fmt::format("plan {:.3f}% in another order", 100 * (cost / stages.required_cost() - 1)));
  }
  return decision;
}

}  // namespace lowtide::strategy::search
