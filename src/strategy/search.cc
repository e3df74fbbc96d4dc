#include <fmt/format.h>

#include <algorithm>

#include "strategy/bound/price_bound.h"
#include "strategy/search/anneal.h"
#include "strategy/search/start.h"
#include "strategy/stage_graph.h"
#include "strategy/strategy.h"

namespace lowtide {
namespace {

/// For each size of cluster of the bound, in its own unit: about half a second.
constexpr double kBoundWork = 3e8;

/// Cost per byte and stage at which running the average op again pays.
double typical_price(const StageGraph& graph) {
  double byte_stages = 1;
  for (const StageValue& value : graph.values()) {
    byte_stages += static_cast<double>(value.bytes) * (value.last_reader() - value.producer);
  }
  return graph.required_cost() / byte_stages;
}

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
  explicit Search(const PlanRequest& request)
      : request_(request), graph_(request.graph), bound_(graph_, request.budget_bytes),
        seed_(static_cast<std::uint64_t>(request.options.at("seed"))),
        moves_(static_cast<std::int64_t>(1000 * request.options.at("moves"))) {}

  Decision decide() {
    const EventPlan keep_all(graph_, request_.budget_bytes);
    if (keep_all.fits()) return answer(Outcome::optimal, keep_all.executions());
    if (!bound_.infeasible()) {
      raise_bound();
      anneal();
    }
    if (best_.empty()) return descend_only();
    return answer(is_optimal() ? Outcome::optimal : Outcome::feasible, best_);
  }

 private:
  /// Coarse clusters first: their prices tell the finer ones where to cut. Takes at most a share
  /// of the time limit, so that the search has its own.
  void raise_bound() {
    const Control part = share_of_time(0.3);
    for (int values : {1, 4, 6, 8, 10}) {
      bound_.raise(values, request_.options.at("bound") * kBoundWork, part);
      report(fmt::format("bound {:.3f}% with clusters of {}", percent(bound_.value()), values));
    }
  }

  /// Hot, then once more from the best at a fifth of the heat.
  void anneal() {
    constexpr double kHeat = 10;
    constexpr double kCold = 0.02;
    const double unit = graph_.required_cost() / graph_.num_stages();
    Annealer annealer(graph_, request_.budget_bytes, price_within(bound_, typical_price(graph_)),
                      seed_);
    load_best_start(annealer);
    for (double share : {0.5, 1.0}) {
      const double heat = share < 1 ? kHeat : kHeat / 5;
      annealer.run({moves_ / 2, heat * unit, kCold * unit}, share_of_time(share));
      if (!annealer.any_fits()) continue;
      take(annealer);
      if (is_optimal()) break;
      annealer.load(annealer.best());
    }
  }

  /// The solutions of the bound at its prices and above, as plans: the best one to start from.
  void load_best_start(Annealer& annealer) {
    std::vector<Event> best;
    annealer.load(best);
    double least = annealer.rating();
    for (double factor : {1.0, 1.1, 1.2, 1.35, 1.5, 2.0, 3.0}) {
      std::vector<Event> events = events_of(graph_, bound_.solution(factor));
      annealer.load(events);
      report(fmt::format("start at {} times the prices: {:.3f}%, peak {}", factor,
                         percent(annealer.plan().cost()),
                         format_bytes(annealer.plan().memory().peak())));
      if (annealer.rating() >= least) continue;
      least = annealer.rating();
      best = annealer.plan().events();
    }
    annealer.load(best);
  }

  void take(const Annealer& annealer) {
    EventPlan plan(graph_, request_.budget_bytes);
    for (Event event : annealer.best()) plan.add(event);
    best_ = plan.executions();
    best_cost_ = annealer.best_cost();
    report(fmt::format("plan {:.3f}%", percent(best_cost_)));
  }

  /// Lowers the peak as far as it goes, in a way that does not depend on the budget: so the
  /// smallest peak that it names is one that it reaches when asked for it.
  Decision descend_only() {
    constexpr double kDear = 1e4;  // a step down is small, and worth many reruns
    constexpr std::int64_t kPatience = 100'000;
    Annealer annealer(graph_, request_.budget_bytes, kDear * typical_price(graph_), 1);
    annealer.load({});
    annealer.descend(kPatience, request_.control);
    if (annealer.any_fits()) {
      take(annealer);
      return answer(Outcome::feasible, best_);
    }
    const Bytes peak = annealer.plan().memory().peak();
    Decision result;
    const bool stopped = request_.control.should_stop();
    result.outcome = stopped ? Outcome::stopped : Outcome::infeasible;
    result.smallest_peak = peak;
    result.message = fmt::format("the smallest budget that the search {} is {} bytes ({})",
                                 stopped ? "reached so far" : "can reach", peak,
                                 format_bytes(peak));
    return result;
  }

  /// Of what is left of the time limit, if there is one.
  Control share_of_time(double share) const {
    const Control& whole = request_.control;
    if (whole.limit_seconds() <= 0) return Control();
    const double left = whole.limit_seconds() - whole.elapsed_seconds();
    return Control(std::max(1e-3, share * left));  // never 0, which means no limit
  }

  Decision answer(Outcome outcome, std::vector<OpId> executions) const {
    Decision result;
    result.outcome = outcome;
    result.executions = std::move(executions);
    result.lower_bound = bound_.value();
    return result;
  }

  bool is_optimal() const { return !best_.empty() && best_cost_ <= bound_.value() * (1 + 1e-8); }
  double percent(double cost) const { return 100 * (cost / graph_.required_cost() - 1); }
  void report(const std::string& message) const { request_.control.report(message); }

  const PlanRequest& request_;
  StageGraph graph_;
  PriceBound bound_;
  std::uint64_t seed_;
  std::int64_t moves_;
  std::vector<OpId> best_;
  double best_cost_ = 0;
};

Decision decide(const PlanRequest& request) { return Search(request).decide(); }

}  // namespace

Strategy search_strategy() {
  return {.name = "search",
          .summary = "starts from the solution of a lower bound and anneals the set of reruns",
          .guarantee = "any graph; says how far from the best possible its plan is at most",
          .paper = "Lagrangian bound and local search over recomputation events",
          .options = {{"moves", "of the local search, in thousands", 3000, 0, 1e9},
                      {"bound", "work on the lower bound; 1 takes a few seconds", 1, 0, 1e6},
                      {"seed", "of the random numbers", 1, 0, 1e9}},
          .decide = decide};
}

}  // namespace lowtide
