#include "strategy/search/local_search.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/time_share.h"
#include "plan/lower.h"
#include "strategy/bound/certificate.h"
#include "strategy/search/anneal.h"
#include "strategy/search/answer.h"
#include "strategy/search/descent.h"
#include "strategy/search/mixture.h"
#include "strategy/search/priced_descent.h"
#include "strategy/search/start.h"
#include "strategy/stage_graph.h"
#include "strategy/strategy.h"

namespace lowtide {
namespace {

/// Plans that cost more than the best by this factor are no alternatives to it.
constexpr double kWorthLayout = 1.05;

double price_within(const PriceBound& bound, double otherwise) {
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
      : request_(request), graph_(request.graph), bound_(graph_, request.budget_bytes),
        effort_(effort) {}

  Decision decide() {
    if (auto kept = keep_all_if_it_fits(graph_, request_.budget_bytes)) return *std::move(kept);
    if (goes_on() && go_on()) return answer(Outcome::feasible, best_);
    if (effort_.adapt_only) return {};
    if (!bound_.infeasible()) {
      raise_in_rounds(bound_, effort_.bound_work, request_.control,
                      share_of_time(is_hurried() ? 0.5 : 0.3));
      anneal();
    }
    if (best_.empty()) return descend_only();
    return answer(is_proved() ? Outcome::optimal : Outcome::feasible, best_);
  }

 private:
  /// From the earlier answer, rather cold, so that it stays about as good as it is. Whether that was
  /// enough.
  bool go_on() {
    constexpr double kClose = 0.02;  // of the cost of all ops
    Annealer annealer(graph_, request_.budget_bytes, typical_price(graph_), effort_.seed);
    annealer.load(events_of(graph_, request_.start));
    const double before = annealer.plan().cost();
    run(annealer, {0.5, 0.3});
    left_ = 1;
    return annealer.any_fits() &&
           annealer.best_cost() <= before + kClose * graph_.required_cost();
  }

  struct Start {
    std::vector<Event> events;
    double cost = 0;
    Bytes peak = 0;
    double rating = 0;  ///< the annealer's
  };

  /// A part of the search: so hot at first, times the cost of the average op, for a share of moves.
  struct Phase {
    double heat;
    double share;
  };

  /// Each good start a while, cold, which keeps what is good in it; then the best plan hot, and
  /// colder again. Heat takes many moves to pay: without time for them, less of it.
  void anneal() {
    Annealer annealer(graph_, request_.budget_bytes, price_within(bound_, typical_price(graph_)),
                      effort_.seed);
    std::vector<Start> starts = priced_starts(annealer);
    keep_leanest(starts);
    starts_ = starts;
    if (auto mixed = mixture_within(request_.budget_bytes)) {
      starts.push_back(start_of(*mixed, annealer));
    }
    starts = choice_of(starts);
    const double each = 0.3 / static_cast<double>(starts.size());
    for (const Start& start : starts) {
      annealer.load(start.events);
      run(annealer, {0.1, each});
      if (!annealer.any_fits()) break;  // it takes more heat
    }
    left_ = 0.7;
    const double hottest = is_short_of_time_ && annealer.any_fits() ? 0.3 : 10;
    for (const Phase& phase : {Phase{hottest, 0.35}, {hottest / 10, 0.2}, {0.1, 0.15}}) {
      if (annealer.any_fits()) annealer.load(annealer.best());
      run(annealer, phase);
    }
  }

  void run(Annealer& annealer, const Phase& phase) {
    constexpr double kCold = 0.002;
    const double unit = graph_.required_cost() / graph_.num_stages();
    const auto moves = static_cast<std::int64_t>(phase.share * static_cast<double>(effort_.moves));
    if (is_optimal()) return;
    const std::int64_t made = annealer.run({moves, phase.heat * unit, kCold * unit},
                                           share_of_time(phase.share / left_));
    is_short_of_time_ = is_short_of_time_ || made < moves / 4;
    left_ -= phase.share;
    if (annealer.any_fits()) take(annealer);
  }

  /// Plans that are good at the prices of the bound and above, from the bound's own solution and
  /// from nothing.
  std::vector<Start> priced_starts(Annealer& annealer) const {
    const Control part = share_of_time(0.3);
    std::vector<Start> starts{start_of({}, annealer)};
    for (bool from_bound : {true, false}) {
      std::vector<Event> priced;
      for (double factor : {1.0, 1.05, 1.1, 1.2, 1.35, 1.5, 2.0, 3.0, 5.0, 10.0, 30.0, 100.0}) {
        if (part.should_stop()) return starts;
        std::optional<std::vector<Event>> from = priced;
        if (from_bound) from = events_of(graph_, bound_.solution(factor));
        if (!from) break;
        priced = PricedDescent(graph_, bound_.prices().times(factor)).run(*from, part);
        starts.push_back(start_of(priced, annealer));
        if (is_lean(starts.back())) break;
      }
    }
    if (std::ranges::none_of(starts, [&](const Start& s) { return fits(s); })) {
      for (const std::vector<Event>& events : segmentations(graph_)) {
        starts.push_back(start_of(events, annealer));
      }
    }
    return starts;
  }

  Start start_of(const std::vector<Event>& events, Annealer& annealer) const {
    annealer.load(events);
    const EventPlan& plan = annealer.plan();
    report(fmt::format("start of {:.3f}%, peak {}", percent(plan.cost()),
                       format_bytes(plan.memory().peak())));
    return {plan.events(), plan.cost(), plan.memory().peak(), annealer.rating()};
  }

  bool fits(const Start& start) const { return start.peak <= request_.budget_bytes; }

  /// Whether addresses are sure to fit, or nearly so.
  bool is_lean(const Start& start) const {
    constexpr double kRoom = 0.9;
    return static_cast<double>(start.peak) <= kRoom * static_cast<double>(request_.budget_bytes);
  }

  void keep_leanest(const std::vector<Start>& starts) {
    for (const Start& start : starts) {
      if (is_lean(start) && (!lean_ || start.cost < lean_->cost)) lean_ = start;
    }
  }

  /// The cheapest that fits, the best by rating, and the leanest that is cheaper than the first.
  std::vector<Start> choice_of(const std::vector<Start>& starts) const {
    const Start* best = &starts.front();
    const Start* cheapest = nullptr;
    for (const Start& s : starts) {
      if (s.rating < best->rating) best = &s;
      if (fits(s) && (cheapest == nullptr || s.cost < cheapest->cost)) cheapest = &s;
    }
    const Start* leanest = nullptr;
    for (const Start& s : starts) {
      if (fits(s) || (cheapest != nullptr && s.cost >= cheapest->cost)) continue;
      if (leanest == nullptr || s.peak < leanest->peak) leanest = &s;
    }
    std::vector<const Start*> chosen{cheapest, best, leanest};
    std::erase(chosen, nullptr);
    std::vector<Start> result;
    for (const Start* start : chosen) {
      const auto is_same = [&](const Start& other) { return other.events == start->events; };
      if (std::ranges::none_of(result, is_same)) result.push_back(*start);
    }
    return result;
  }

  /// A plan within the limit between two starts, or a start and the best plan, from which a low cost
  /// is to be expected.
  std::optional<std::vector<Event>> mixture_within(Bytes limit) const {
    const auto cost_between = [&](const Start& cheaper, const Start& leaner) {
      const auto share = static_cast<double>(cheaper.peak - limit) /
                         static_cast<double>(cheaper.peak - leaner.peak);
      return cheaper.cost + share * (leaner.cost - cheaper.cost);
    };
    const Start* cheaper = nullptr;
    const Start* leaner = nullptr;
    for (const Start& c : starts_) {
      for (const Start& l : starts_) {
        if (c.peak <= limit || l.peak > limit || c.cost >= l.cost) continue;
        if (cheaper && cost_between(c, l) >= cost_between(*cheaper, *leaner)) continue;
        cheaper = &c;
        leaner = &l;
      }
    }
    if (cheaper == nullptr) return std::nullopt;
    return Mixture(graph_, cheaper->events, leaner->events).within(limit);
  }

  void take(const Annealer& annealer) {
    if (!best_.empty() && annealer.best_cost() >= best_cost_) return;
    best_ = executions_of(graph_, annealer.best());
    best_start_ = {annealer.best(), annealer.best_cost(), request_.budget_bytes, 0};
    best_cost_ = annealer.best_cost();
    others_ = annealer.others();
    report(fmt::format("plan {:.3f}%", percent(best_cost_)));
  }

  Decision descend_only() {
    const Descent found = descend(graph_, request_.budget_bytes, request_.control);
    if (found.peak > request_.budget_bytes) {
      return with_bound(nothing_fits(found.peak, "the search", request_.control));
    }
    best_ = executions_of(graph_, found.events);
    best_cost_ = found.cost;
    polish();
    return answer(Outcome::feasible, best_);
  }

  /// The way down takes any rerun that lowers the peak; most are not needed at its end.
  void polish() {
    Annealer annealer(graph_, request_.budget_bytes, price_within(bound_, typical_price(graph_)),
                      effort_.seed);
    left_ = 1;
    for (double heat : {1.0, 0.1}) {
      annealer.load(events_of(graph_, best_));
      run(annealer, {heat, 0.5});
    }
  }

  /// Of what is left of the time limit, if there is one. As long as nothing fits, the descent's
  /// time is set aside.
  Control share_of_time(double share) const {
    constexpr double kForDescent = 0.3;
    const double until = effort_.time_share * (best_.empty() ? 1 - kForDescent : 1);
    return Control(share_of_seconds(request_.control, share, until));
  }

  Decision answer(Outcome outcome, std::vector<OpId> executions) {
    Decision result;
    result.outcome = outcome;
    result.executions = std::move(executions);
    result.alternatives = alternatives();
    return with_bound(std::move(result));
  }

  Decision with_bound(Decision decision) const {
    decision.lower_bound = bound_.value();
    decision.certificate =
        shared_certificate(request_.graph, graph_, bound_, request_.budget_bytes);
    return decision;
  }

  /// Of the others, those that are worth a layout; some that leave more room; and one that needs much
  /// less.
  std::vector<std::vector<OpId>> alternatives() {
    const std::size_t most = is_short_of_time_ ? 1 : 6;
    std::vector<Annealer::Found> sorted = others_;
    std::ranges::sort(sorted, {}, &Annealer::Found::cost);
    const auto repeated = std::ranges::unique(sorted, {}, &Annealer::Found::cost);
    sorted.erase(repeated.begin(), repeated.end());
    std::vector<std::vector<OpId>> result;
    for (const Annealer::Found& other : sorted) {
      if (other.cost > kWorthLayout * best_cost_ || result.size() == most) break;
      if (other.cost > best_cost_) result.push_back(executions_of(graph_, other.events));
    }
    starts_.push_back(best_start_);
    for (double share : {0.997, 0.99, 0.97}) {
      const auto limit = static_cast<Bytes>(share * static_cast<double>(request_.budget_bytes));
      if (auto mixed = mixture_within(limit)) result.push_back(executions_of(graph_, *mixed));
    }
    if (lean_) result.push_back(executions_of(graph_, lean_->events));
    return result;
  }

  /// Whether there is no time for many moves per op: then starts at good prices are worth more.
  bool is_hurried() const {
    constexpr double kSecondsPerStage = 1e-3;
    const double limit = request_.control.limit_seconds();
    return limit > 0 && limit < kSecondsPerStage * graph_.num_stages();
  }
  /// Whether this search only adapts an earlier answer.
  bool goes_on() const { return !request_.start.empty(); }
  /// Whether the search has nothing left to gain, which does not see views that run again.
  bool is_optimal() const { return !best_.empty() && best_cost_ <= bound_.value() * (1 + 1e-8); }
  bool is_proved() const {
    return is_optimal() && lower(request_.graph, best_).cost <= bound_.value() * (1 + 1e-8);
  }
  double percent(double cost) const { return 100 * (cost / graph_.required_cost() - 1); }
  void report(const std::string& message) const { request_.control.report(message); }

  const PlanRequest& request_;
  StageGraph graph_;
  PriceBound bound_;
  SearchEffort effort_;
  std::vector<OpId> best_;
  std::vector<Annealer::Found> others_;
  double best_cost_ = 0;
  std::vector<Start> starts_;  // and the best plan, once the search is over
  Start best_start_;
  std::optional<Start> lean_;  // the last resort among alternatives
  bool is_short_of_time_ = false;
  double left_ = 1;  // share of the moves
};

}  // namespace

Decision local_search(const PlanRequest& request, const SearchEffort& effort) {
  return Search(request, effort).decide();
}

}  // namespace lowtide
