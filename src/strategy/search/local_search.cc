#include "strategy/search/local_search.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <optional>

#include "base/time_share.h"
#include "bounds/certificate.h"
#include "bounds/moment_bound.h"
#include "plan/lower.h"
#include "remat/stage_graph.h"
#include "strategy/answer.h"
#include "strategy/search/annealer.h"
#include "strategy/search/descent.h"
#include "strategy/search/ends_proof.h"
#include "strategy/search/proof.h"
#include "strategy/search/relief.h"
#include "strategy/search/start_finder.h"
#include "strategy/search/starts.h"
#include "strategy/strategy.h"

namespace lowtide::strategy::search {
namespace {

/// Alternatives cost at most this factor times the best plan.
constexpr double kWorthLayout = 1.05;

/// A cost of at most this factor times a bound is optimal.
constexpr double kSame = 1 + 1e-8;

double price_within(const bounds::PriceBound& bound, double otherwise) {
  double sum = 0;
  int priced = 0;
  for (double price : bound.prices().each()) {
    sum += price;
    priced += price > 0;
  }
  return priced > 0 ? sum / priced : otherwise;
}

class Search {
 public:
  Search(const PlanRequest& request, const SearchEffort& effort)
      : request_(request),
        graph_(request.graph),
        bound_(graph_, request.budget_bytes),
        effort_(effort),
        starts_(graph_, request.budget_bytes),
        moves_(effort.moves) {}

  Decision decide() {
    if (auto kept = keep_all_if_it_fits(graph_, request_.budget_bytes)) return *std::move(kept);
    if (goes_on() && go_on()) return answer(Outcome::feasible, best_);
    if (effort_.adapt_only) return {};
    if (!bound_.infeasible()) {
      if (proves()) glance();
      if (!is_optimal()) {
        raise_bound();
        anneal();
        if (proves()) {
          prove_by_branches(effort_.states);
          prove_by_sets(effort_.states);
        }
      }
    }
    if (best_.empty()) return descend_only();
    return answer(is_proved() || is_proved(staged_) ? Outcome::optimal : Outcome::feasible, best_);
  }

 private:
  /// Starts from the prices of an earlier answer, if any, which needs less time.
  void raise_bound() {
    if (!request_.prices.empty()) {
      bound_.start_from(bounds::stage_prices(graph_, request_.prices));
      return raise_bound(effort_.bound_work, 0.1);
    }
    raise_bound(effort_.bound_work, is_hurried() ? 0.5 : 0.3);
  }

  void raise_bound(double work, double share) {
    bounds::raise_in_rounds(bound_, work, request_.control, share_of_time(share));
    if (work <= 0) return;
    const bounds::MomentBound now = bounds::moment_bound(graph_, bound_, share_of_time(share));
    if (now.value <= bound_.value() || (moment_ && now.value <= moment_->value)) return;
    moment_ = now;
    report(fmt::format("bound {:.3f}% with one price", percent(now.value)));
  }

  /// Adapts the earlier answer to the budget, at low temperatures, so that it stays about as good.
  /// Returns whether that was enough; the result stays the best until there is a better one.
  bool go_on() {
    constexpr double kClose = 0.02;      // of the cost of all ops
    constexpr double kDear = 2;          // times that cost
    constexpr double kNewSearch = 1e-2;  // seconds for each op, below which a new search is worse
    Annealer annealer(graph_, request_.budget_bytes, typical_price(graph_), effort_.seed);
    annealer.load(remat::events_of(graph_, request_.start));
    const double most = annealer.plan().cost() + kClose * graph_.required_cost();
    const auto relieved =
        Relief(graph_, request_.budget_bytes)
            .run(annealer.plan().events(), kDear * graph_.required_cost(),
                 Control(request_.control, share_of_seconds(request_.control, 0.8)),
                 Relief::kHasty);
    if (relieved) annealer.load(*relieved);
    run(annealer, {0.5, 0.3});
    left_ = 1;
    const bool may_search = has_seconds(request_, graph_, kNewSearch);
    return annealer.any_fits() && (annealer.best_cost() <= most || !may_search);
  }

  /// A part of the search: first temperature, times the cost of the average op; share of moves.
  struct Phase {
    double heat;
    double share;
  };

  bool proves() const { return effort_.states > 0 && can_prove(graph_); }

  /// On most small graphs a hundredth of the work is enough for the best plan and its proof of
  /// optimality.
  void glance() {
    constexpr std::int64_t kPart = 100;
    raise_bound(effort_.bound_work / kPart, 0.1);
    moves_ = effort_.moves / kPart;
    anneal();
    prove_by_sets(effort_.states / kPart);
    prove_by_branches(effort_.states / kPart);
    moves_ = effort_.moves;
    left_ = 1;
  }

  /// Fast when few sets of values can be held.
  void prove_by_sets(std::int64_t states) {
    if (best_.empty() || is_optimal()) return;
    take(prove(request_, graph_, bound_, best_cost_, states, share_of_time(0.5)));
  }

  /// Better if memory is short only at few moments. A short search skips it.
  void prove_by_branches(std::int64_t states) {
    constexpr std::int64_t kStatesPerNode = 200;
    constexpr std::int64_t kLeastNodes = 50;
    const std::int64_t nodes = states / kStatesPerNode;
    if (best_.empty() || is_optimal() || nodes < kLeastNodes) return;
    take(prove_by_program(request_, graph_, remat::events_of(graph_, best_), best_cost_, nodes,
                          share_of_time(0.7)));
  }

  void take(Proof proof) {
    proved_ = std::max(proved_, proof.bound);
    staged_ = std::max(staged_, proof.staged_bound);
    if (!proof.executions) return;
    best_ = *std::move(proof.executions);
    best_cost_ = proof.cost;
    report(fmt::format("plan {:.3f}%", percent(best_cost_)));
  }

  /// First each good start, at low temperatures that keep its good parts, and then at higher ones;
  /// then the best plan, from hot to cold. High temperatures need many moves to pay, so they are
  /// lower when time is short.
  void anneal() {
    Annealer annealer(graph_, request_.budget_bytes, price_within(bound_, typical_price(graph_)),
                      effort_.seed);
    StartFinder finder(
        graph_, request_.budget_bytes, bound_, annealer,
        [this](double share) { return share_of_time(share); }, request_.control);
    starts_ = effort_.finds_starts ? finder.find() : finder.no_reruns();
    const std::vector<Start> starts = starts_.chosen();
    constexpr double kHeats[] = {0.1, 0.3, 1};
    const double each = 0.5 / static_cast<double>(starts.size() * std::size(kHeats));
    for (double heat : kHeats) {
      for (const Start& start : starts) {
        if (heat > kHeats[0] && !annealer.any_fits()) break;  // higher temperatures are needed
        annealer.load(start.events);
        run(annealer, {heat, each});
      }
    }
    left_ = 0.5;
    const double hottest = is_short_of_time_ && annealer.any_fits() ? 0.3 : 10;
    for (const Phase& phase : {Phase{hottest, 0.2}, {hottest / 10, 0.15}, {0.1, 0.15}}) {
      if (annealer.any_fits()) annealer.load(annealer.best());
      run(annealer, phase);
    }
  }

  void run(Annealer& annealer, const Phase& phase) {
    constexpr double kCold = 0.002;
    const double unit = graph_.required_cost() / graph_.num_stages();
    const auto moves = static_cast<std::int64_t>(phase.share * static_cast<double>(moves_));
    if (is_optimal()) return;
    const std::int64_t made =
        annealer.run({moves, phase.heat * unit, kCold * unit}, share_of_time(phase.share / left_));
    is_short_of_time_ = is_short_of_time_ || made < moves / 4;
    left_ -= phase.share;
    if (annealer.any_fits()) take(annealer);
  }

  void take(const Annealer& annealer) {
    if (!best_.empty() && annealer.best_cost() >= best_cost_) return;
    best_ = remat::executions_of(graph_, annealer.best());
    best_start_ = {annealer.best(), annealer.best_cost(), request_.budget_bytes, 0};
    best_cost_ = annealer.best_cost();
    others_ = annealer.others();
    report(fmt::format("plan {:.3f}%", percent(best_cost_)));
  }

  Decision descend_only() {
    const Control part = lowtide::share_of_time(request_.control, effort_.descent_share);
    const Descent found = descend(graph_, request_.budget_bytes, part);
    if (found.peak > request_.budget_bytes) {
      return with_bound(nothing_fits(found.peak, remat::executions_of(graph_, found.events),
                                     "the search", request_.control));
    }
    best_ = remat::executions_of(graph_, found.events);
    best_cost_ = found.cost;
    polish();
    return answer(Outcome::feasible, best_);
  }

  /// The descent takes any rerun that lowers the peak; most are not needed at its end.
  void polish() {
    Annealer annealer(graph_, request_.budget_bytes, price_within(bound_, typical_price(graph_)),
                      effort_.seed);
    left_ = 1;
    for (double heat : {1.0, 0.1}) {
      annealer.load(remat::events_of(graph_, best_));
      run(annealer, {heat, 0.5});
    }
  }

  /// A share of the remaining time limit, if there is one. As long as nothing fits, reserves the
  /// descent's time.
  Control share_of_time(double share) const {
    constexpr double kForDescent = 0.3;
    const double until = effort_.time_share * (best_.empty() ? 1 - kForDescent : 1);
    return Control(request_.control, share_of_seconds(request_.control, share, until));
  }

  Decision answer(Outcome outcome, std::vector<OpId> executions) const {
    Decision result;
    result.outcome = outcome;
    result.executions = std::move(executions);
    result.alternatives = alternatives();
    return with_bound(std::move(result));
  }

  Decision with_bound(Decision decision) const {
    decision.lower_bound = lower_bound();
    if (!is_proved() && is_proved(staged_)) {
      decision.lower_bound = staged_;
      decision.bound_model = "stages";
    }
    decision.certificate =
        moment_ && moment_->value > bound_.value()
            ? bounds::shared_certificate(request_.graph, graph_, *moment_, request_.budget_bytes)
            : bounds::shared_certificate(request_.graph, graph_, bound_, request_.budget_bytes);
    return decision;
  }

  /// Other plans that are worth a layout; some that need less memory; the cheapest start, which
  /// annealing has not fragmented, so that addresses fit better; and one that needs much less.
  std::vector<std::vector<OpId>> alternatives() const {
    const std::size_t most = is_short_of_time_ ? 1 : 6;
    std::vector<Annealer::Found> sorted = others_;
    std::ranges::sort(sorted, {}, &Annealer::Found::cost);
    const auto is_other = [&](const Annealer::Found& found) {
      return found.cost > best_cost_ && found.cost <= kWorthLayout * best_cost_;
    };
    std::erase_if(sorted, std::not_fn(is_other));
    const auto repeated = std::ranges::unique(sorted, {}, &Annealer::Found::cost);
    sorted.erase(repeated.begin(), repeated.end());
    sorted.resize(std::min(most, sorted.size()));
    std::ranges::move(roomier(), std::back_inserter(sorted));
    std::ranges::stable_sort(sorted, {}, &Annealer::Found::cost);
    std::vector<std::vector<OpId>> result;
    for (const Annealer::Found& other : sorted) {
      result.push_back(remat::executions_of(graph_, other.events));
    }
    const Start* small = starts_.cheapest_small();
    if (small != nullptr) result.push_back(remat::executions_of(graph_, small->events));
    return result;
  }

  std::vector<Annealer::Found> roomier() const {
    std::vector<Annealer::Found> result;
    const auto add = [&](const std::vector<remat::Event>& events) {
      result.push_back({remat::cost_of(graph_, events), events});
    };
    Starts with_best = starts_;
    with_best.add(best_start_);
    for (double share : {0.997, 0.99, 0.97}) {
      const auto limit = static_cast<Bytes>(share * static_cast<double>(request_.budget_bytes));
      const auto mixed = with_best.mixture_within(limit);
      if (mixed) add(*mixed);
    }
    const Start* cheapest = starts_.cheapest();
    if (cheapest != nullptr) add(cheapest->events);
    return result;
  }

  /// Whether time is too short for many moves per op: then starts at good prices are worth more.
  bool is_hurried() const {
    constexpr double kSecondsPerStage = 1e-3;
    return !has_seconds(request_, graph_, kSecondsPerStage);
  }
  double lower_bound() const {
    return std::max({bound_.value(), proved_, moment_ ? moment_->value : 0});
  }
  /// Whether this search only adapts an earlier answer.
  bool goes_on() const { return !request_.start.empty(); }
  /// Whether the search can gain nothing more; ignores views that run again.
  bool is_optimal() const {
    return !best_.empty() && best_cost_ <= std::max(lower_bound(), staged_) * kSame;
  }
  bool is_proved(double bound) const {
    return is_optimal() && lower(request_.graph, best_).cost <= bound * kSame;
  }
  bool is_proved() const { return is_proved(lower_bound()); }
  double percent(double cost) const { return 100 * (cost / graph_.required_cost() - 1); }
  void report(const std::string& message) const { request_.control.report(message); }

  const PlanRequest& request_;
  remat::StageGraph graph_;
  bounds::PriceBound bound_;
  std::optional<bounds::MomentBound> moment_;  // where it was higher
  SearchEffort effort_;
  std::vector<OpId> best_;
  std::vector<Annealer::Found> others_;
  double best_cost_ = 0;
  Starts starts_;
  Start best_start_;  // the best plan that annealing found
  bool is_short_of_time_ = false;
  std::int64_t moves_;  // of the current search
  double left_ = 1;     // share of them that is left
  double proved_ = 0;   // a bound in addition to bound_
  double staged_ = 0;   // no plan costs less that runs each op at most once in a stage
};

}  // namespace

bool has_seconds(const PlanRequest& request, const remat::StageGraph& stages, double per_stage) {
  const double limit = request.control.limit_seconds();
  return limit <= 0 || limit >= per_stage * stages.num_stages();
}

Decision local_search(const PlanRequest& request, const SearchEffort& effort) {
  return Search(request, effort).decide();
}

}  // namespace lowtide::strategy::search
