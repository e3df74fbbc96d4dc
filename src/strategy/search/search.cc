#include <utility>

#include "base/time_share.h"
#include "bounds/any_order_bound.h"
#include "bounds/certificate.h"
#include "ordering/lower_memory_order.h"
#include "ordering/schedule.h"
#include "plan/in_place.h"
#include "plan/lower.h"
#include "strategy/answer.h"
#include "strategy/least_order.h"
#include "strategy/search/local_search.h"
#include "strategy/search/ordered_search.h"

namespace lowtide::strategy {
namespace {

/// For each size of the bound's clusters: about half a second.
constexpr double kBoundWork = 3e8;

/// For the proof: takes about as long as the search.
constexpr double kStatesPerMove = 0.2;

/// Moves of the search for an order, per op.
constexpr double kOrderMoves = 1000;

/// Share of the time limit for the first order; the rest is for another order.
constexpr double kFirstShare = 0.75;

/// Share of the time left for the first descent to the fewest bytes; the rest is for other orders.
constexpr double kDescentShare = 0.6;

/// Share of the remaining time limit for another order; the rest is for a bound on it.
constexpr double kReorderShare = 0.8;

/// Share of the work for the graph's order if there is another.
constexpr double kGivenOrderShare = 0.25;

/// Share of the time limit for an order in which everything may be kept.
constexpr double kLeastOrderShare = 0.1;

/// Seconds for each op below which time is better spent in the existing order. An order in
/// which everything may be kept, and the graph's with early updates, pay sooner than one for plans
/// with reruns that needs many moves.
constexpr double kSecondsForQuickOrder = 1e-3;
constexpr double kSecondsForOrder = 2.5e-3;

/// The order should lower keep-all's memory above this share of its peak. The share does not depend
/// on the budget, so neither does the order, nor the smallest budget that is reached in it.
constexpr double kOrderLimit = 0.5;

search::SearchEffort effort_of(const PlanRequest& request) {
  search::SearchEffort effort{
      .moves = static_cast<std::int64_t>(1000 * request.options.at("moves")),
      .bound_work = request.options.at("bound") * kBoundWork,
      .seed = static_cast<std::uint64_t>(request.options.at("seed")),
      .finds_starts = !is_off(request.options, "starts")};
  if (!request.start.empty()) {  // adapting an earlier answer needs less work
    effort.moves /= 3;
    effort.bound_work /= 10;
  }
  effort.states = static_cast<std::int64_t>(request.options.at("prove") * kStatesPerMove *
                                            static_cast<double>(effort.moves));
  return effort;
}

/// Another order of the ops that needs less memory; or the order of an earlier answer.
std::optional<std::vector<OpId>> order_for(const PlanRequest& request,
                                           const remat::StageGraph& stages) {
  if (!request.start.empty()) return ordering::order_of(request.graph, stages, request.start);
  const double work = request.options.at("order");
  if (work <= 0 || !search::has_seconds(request, stages, kSecondsForQuickOrder))
    return std::nullopt;
  const auto limit =
      static_cast<Bytes>(kOrderLimit * static_cast<double>(remat::keep_all_peak(stages)));
  const bool has_time = search::has_seconds(request, stages, kSecondsForOrder);
  const double moves = has_time ? work * kOrderMoves * stages.num_stages() : 0;
  return ordering::lower_memory_order(
      request.graph, stages, limit,
      {.moves = static_cast<std::int64_t>(moves),
       .seed = static_cast<std::uint64_t>(request.options.at("seed"))},
      share_of_time(request.control, 0.1));
}

/// The cheaper plan; or the better result about the smallest budget.
Decision better_of(const Graph& graph, Decision a, Decision b) {
  if (a.executions.empty() && b.executions.empty()) {
    const bool stopped = a.outcome == Outcome::stopped || b.outcome == Outcome::stopped;
    Decision& smaller = *a.smallest_peak <= *b.smallest_peak ? a : b;
    if (stopped) smaller.outcome = Outcome::stopped;
    return std::move(smaller);
  }
  if (a.executions.empty()) return b;
  if (b.executions.empty()) return a;
  return lower(graph, a.executions).cost <= lower(graph, b.executions).cost ? a : b;
}

/// Searches in the graph's order, for which the bound holds; and in an order that needs less memory
/// when everything is kept, which is usually but not always better.
Decision first_answer(const PlanRequest& request, const remat::StageGraph& stages,
                      double time_share, double descent_share) {
  search::SearchEffort effort = effort_of(request);
  effort.time_share = time_share;
  effort.descent_share = descent_share;
  const auto order = order_for(request, stages);
  if (!order) return search::local_search(request, effort);
  if (!request.start.empty()) return search::ordered_search(request, *order, effort);
  Control part = share_of_time(request.control, kGivenOrderShare);
  search::SearchEffort less = effort_of(request);
  less.moves = static_cast<std::int64_t>(kGivenOrderShare * static_cast<double>(effort.moves));
  const Decision given =
      search::local_search({request.graph, request.budget_bytes, request.options, part}, less);
  PlanRequest in_order = request;
  const std::vector<double> prices =
      given.certificate ? bounds::op_prices(*given.certificate) : std::vector<double>();
  in_order.prices = prices;
  return with_bound_of(
      given, better_of(request.graph, search::ordered_search(in_order, *order, effort), given));
}

/// A plan in another order may cost less than any in the graph's order; then it gets the bound for
/// any order. So it does if that bound is about as high as the other. Else it keeps the bound for
/// plans in the graph's order.
Decision with_valid_bound(const PlanRequest& request, const remat::StageGraph& stages,
                          Decision decision, double work) {
  constexpr double kAsGood = 0.98;
  if (decision.executions.empty() || !decision.lower_bound) return decision;
  if (!ordering::order_of(request.graph, stages, decision.executions)) return decision;
  auto proof =
      bounds::any_order_bound(request.graph, stages, *decision.certificate, work, request.control);
  const double required = stages.required_cost();
  const double says = proof->lower_bound - required;
  const double other_says = *decision.lower_bound - required;
  const double cost = lower(request.graph, decision.executions).cost;
  if (*decision.lower_bound <= cost && says < kAsGood * other_says) return decision;
  decision.lower_bound = proof->lower_bound;
  decision.bound_model = "any-order";
  decision.certificate = std::move(proof);
  return decision;
}

/// Every op once, in another order if the graph's order needs too much memory.
std::optional<Decision> kept_in_another_order(const PlanRequest& request,
                                              const remat::StageGraph& stages) {
  const double work = request.options.at("order");
  if (work <= 0 || !search::has_seconds(request, stages, kSecondsForQuickOrder))
    return std::nullopt;
  const ordering::LeastPeak least =
      least_order(request, stages, {.work = work, .wanted = request.budget_bytes},
                  share_of_time(request.control, kLeastOrderShare));
  if (least.peak > request.budget_bytes) return std::nullopt;
  Decision kept;
  kept.outcome = Outcome::optimal;
  kept.executions = ordering::ops_of(stages, least.stages);
  kept.lower_bound = stages.required_cost();
  return kept;
}

/// Goes on from a plan of few bytes to one of fewer.
Decision lowered(const PlanRequest& request) {
  Decision decision;
  decision.smallest_executions.assign(request.start.begin(), request.start.end());
  // As a descent counts it: else a plan that takes more would seem to be one of fewer bytes.
  decision.smallest_peak =
      with_in_place(request.graph, lower(request.graph, request.start)).peak_bytes;
  return search::descended_in_other_orders(request, std::move(decision));
}

Decision decide_by_search(const PlanRequest& request) {
  if (request.budget_bytes <= 0 && !request.start.empty()) return lowered(request);
  const remat::StageGraph stages(request.graph);
  auto kept = keep_all_if_it_fits(stages, request.budget_bytes);
  if (!kept) kept = kept_in_another_order(request, stages);
  if (kept) {
    const bounds::PriceBound bound(stages, request.budget_bytes);
    kept->certificate =
        bounds::shared_certificate(request.graph, stages, bound, request.budget_bytes);
    return with_valid_bound(request, stages, *std::move(kept), 0);  // no plan costs less
  }
  const bool improves = request.start.empty() && request.options.at("order") > 0 &&
                        !is_off(request.options, "reorder") &&
                        search::has_seconds(request, stages, kSecondsForOrder);
  const double work = effort_of(request).bound_work;
  if (!improves)
    return with_valid_bound(request, stages, first_answer(request, stages, 1, 1), work);
  Decision decision = first_answer(request, stages, kFirstShare, kDescentShare);
  const bool goes_on = decision.executions.empty() && !decision.smallest_executions.empty();
  if (goes_on) decision = search::descended_in_other_orders(request, std::move(decision));
  if (decision.outcome == Outcome::feasible) {
    Control part = share_of_time(request.control, kReorderShare);
    decision = search::resequenced({request.graph, request.budget_bytes, request.options, part},
                                   std::move(decision), effort_of(request));
  }
  return with_valid_bound(request, stages, std::move(decision), work);
}

}  // namespace

Strategy search_strategy() {
  return {
      .name = "search",
      .summary = "starts from the solution of a lower bound and anneals the set of reruns",
      .guarantee = "any graph; says how far from the best possible its plan is at most",
      .paper = "Lagrangian bound and local search over recomputation events",
      .options = {number_option("moves", "of the annealing; 0: none", 5000, {0, 1e9},
                                "thousand moves"),
                  number_option("bound",
                                "work on the lower bound, whose prices give starts; 1 takes a "
                                "few seconds, 0: none",
                                1, {0, 1e6}),
                  on_off_option("starts",
                                "plans to anneal, made at prices, by evictions and segments; "
                                "off: annealing begins with no reruns",
                                true),
                  number_option("prove",
                                "work on the proof on small graphs, in proportion to the "
                                "moves; 0: none",
                                1, {0, 1e6}),
                  on_off_option("moments",
                                "raise the bound of the answer by an exact program of a few "
                                "moments",
                                true),
                  number_option("order", "work on the order of the ops; 0 keeps the graph's", 1,
                                {0, 1e6}),
                  on_off_option("reorder",
                                "search on in orders in which the answer needs less "
                                "memory",
                                true),
                  on_off_option("restarts",
                                "search again with other random numbers while there is time", true),
                  on_off_option("spare-room",
                                "remove reruns that the holes of the arena make needless", true),
                  seed_option()},
      .decide = decide_by_search,
      .may_lose_reruns = true};
}

}  // namespace lowtide::strategy
