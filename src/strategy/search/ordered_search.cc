#include "strategy/search/ordered_search.h"

#include <fmt/format.h>

#include <utility>

#include "base/time_share.h"
#include "graph/permuted.h"
#include "ordering/lower_memory_order.h"
#include "plan/lower.h"
#include "strategy/answer.h"
#include "strategy/search/descent.h"

namespace lowtide::strategy::search {
namespace {

constexpr int kRounds = 4;
constexpr int kMovesPerExecution = 200;
/// Memory counts above this share of the budget: lowering it gives the search space to use.
constexpr double kNearBudget = 0.97;
/// Shares of the time that is left for another order of a plan of few bytes, and then for lowering
/// its peak in this order.
constexpr double kPositionsShare = 0.3;
constexpr double kPeakShare = 0.5;

/// Per op of the other order, and for the end.
std::vector<double> mapped_prices(std::span<const double> prices, std::span<const OpId> order) {
  if (prices.empty()) return {};
  std::vector<double> result;
  for (OpId id : order) result.push_back(prices[static_cast<std::size_t>(id)]);
  result.push_back(prices.back());
  return result;
}

/// A plan of few bytes.
struct Smallest {
  std::vector<OpId> executions;
  Bytes peak = 0;
};

/// Lowers the peak of the executions, in the order of the graph.
Smallest descended(const Graph& graph, std::span<const OpId> executions, Bytes limit,
                   const Control& control) {
  const remat::StageGraph stages(graph);
  const Descent found = descend_from(stages, remat::events_of(stages, executions), limit, control);
  return {remat::executions_of(stages, found.events), found.peak};
}

/// Moves the executions to positions where they need less memory above `near`, and lowers the peak
/// in the order of first runs that comes out.
Smallest descended_in_other_order(const PlanRequest& request, const remat::StageGraph& stages,
                                  std::span<const OpId> executions, Bytes near,
                                  std::uint64_t seed) {
  const auto moves = static_cast<std::int64_t>(kMovesPerExecution * executions.size());
  const std::vector<OpId> start =
      ordering::lower_memory_sequence(request.graph, stages, executions, near, {moves, seed},
                                      share_of_time(request.control, kPositionsShare));
  const auto order = ordering::order_of(request.graph, stages, start);
  const Control part = share_of_time(request.control, kPeakShare);
  if (!order) return descended(request.graph, start, request.budget_bytes, part);
  Smallest found = descended(permuted(request.graph, *order), mapped(start, inverse(*order)),
                             request.budget_bytes, part);
  found.executions = mapped(found.executions, *order);
  return found;
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
    decision = with_bound_of(decision, std::move(found));
    request.control.report(
        fmt::format("plan {:.3f}% in another order", 100 * (cost / stages.required_cost() - 1)));
  }
  return decision;
}

Decision descended_in_other_orders(const PlanRequest& request, Decision decision) {
  constexpr int kMostInVain = 3;
  constexpr double kFarBelow = 0.9;  // of the peak: moves more than the executions at the peak
  const remat::StageGraph stages(request.graph);
  int in_vain = 0;
  for (std::uint64_t seed = 2; in_vain < kMostInVain; ++seed) {
    const Bytes peak = *decision.smallest_peak;
    if (peak <= request.budget_bytes || request.control.should_stop()) break;
    const double share = in_vain == 0 ? kNearBudget : kFarBelow;
    const auto near = static_cast<Bytes>(share * static_cast<double>(peak));
    Smallest found =
        descended_in_other_order(request, stages, decision.smallest_executions, near, seed);
    ++in_vain;
    if (found.peak >= peak) continue;
    in_vain = 0;
    decision.smallest_peak = found.peak;
    decision.smallest_executions = std::move(found.executions);
    request.control.report(fmt::format("down to {} in another order", format_bytes(found.peak)));
  }
  if (*decision.smallest_peak <= request.budget_bytes) {
    decision.outcome = Outcome::feasible;
    decision.executions = decision.smallest_executions;
    return decision;
  }
  return with_bound_of(decision, nothing_fits(*decision.smallest_peak, decision.smallest_executions,
                                              "the search", request.control));
}

}  // namespace lowtide::strategy::search
