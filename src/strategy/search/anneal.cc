#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "strategy/answer.h"
#include "strategy/search/annealer.h"
#include "strategy/search/descent.h"
#include "strategy/strategy.h"

namespace lowtide::strategy {
namespace {

/// Temperatures from the first to the last, each for as many moves.
constexpr int kTemperatures = 100;
/// At this share of the schedule, heat no longer spoils a plan that is good in most places.
constexpr double kColdShare = 0.6;
/// Share of the time limit: the delay beyond the schedule after which temperatures are left out. So
/// they do not depend on the clock while there is enough time.
constexpr double kHeadStart = 0.05;
/// Share of the time limit reserved for the descent as long as nothing fits.
constexpr double kForDescent = 0.3;

/// Only simulated annealing: from keep-all, at temperatures that fall by the same factor each
/// time.
class Annealing {
 public:
  explicit Annealing(const PlanRequest& request)
      : request_(request),
        graph_(request.graph),
        annealer_(graph_, request.budget_bytes, search::typical_price(graph_),
                  static_cast<std::uint64_t>(request.options.at("seed"))) {
    const double first = request.options.at("first");
    const double last = request.options.at("last");
    if (last > first) {
      throw InputError(fmt::format("the last temperature of anneal ({}) must not be above the "
                                   "first ({}): set -O first or -O last",
                                   last, first));
    }
  }

  Decision decide() {
    if (auto kept = keep_all_if_it_fits(graph_, request_.budget_bytes)) return *std::move(kept);
    annealer_.load(remat::events_of(graph_, request_.start));
    cool(request_.start.empty() ? 0 : kColdShare);
    if (annealer_.any_fits()) return answer();
    const search::Descent smallest =
        search::descend(graph_, request_.budget_bytes, request_.control);
    if (smallest.peak > request_.budget_bytes) {
      return nothing_fits(smallest.peak, remat::executions_of(graph_, smallest.events), "annealing",
                          request_.control);
    }
    annealer_.load(smallest.events);
    cool(kColdShare);
    return answer();
  }

 private:
  /// Starts at this share of the schedule. Skips temperatures when the time limit is too short.
  void cool(double share) {
    const double first = request_.options.at("first");
    const double ratio = request_.options.at("last") / first;
    const double unit = graph_.required_cost() / graph_.num_stages();
    const auto moves =
        static_cast<std::int64_t>(1000 * request_.options.at("moves") / kTemperatures);
    const Control& control = request_.control;
    for (; share < 1 && !control.should_stop(); share += 1.0 / kTemperatures) {
      const double gone = control.used_share();
      if (gone > 1 - kForDescent && !annealer_.any_fits()) break;
      share = std::max(share, std::min(1.0, gone - kHeadStart));
      const double temperature = first * std::pow(ratio, share) * unit;
      annealer_.run({moves, temperature, temperature}, control);
      report(share);
    }
  }

  void report(double share) const {
    if (!annealer_.any_fits()) return;
    const double overhead = annealer_.best_cost() / graph_.required_cost() - 1;
    request_.control.report(fmt::format("{:.0f}%: plan {:.3f}%", 100 * share, 100 * overhead));
  }

  Decision answer() const {
    Decision result;
    result.outcome = Outcome::feasible;
    result.executions = remat::executions_of(graph_, annealer_.best());
    return result;
  }

  const PlanRequest& request_;
  remat::StageGraph graph_;
  search::Annealer annealer_;
};

Decision decide_by_anneal(const PlanRequest& request) { return Annealing(request).decide(); }

}  // namespace

Strategy anneal_strategy() {
  return {
      .name = "anneal",
      .summary = "simulated annealing of retention intervals, from keeping everything",
      .guarantee = "any graph; the same plan for the same seed and moves; no bound",
      .paper = "Kirkpatrick, Gelatt, Vecchi: Optimization by simulated annealing, Science 1983",
      .options = {number_option("moves", "of the annealing", 3000, {0.1, 1e9}, "thousand moves"),
                  seed_option(),
                  number_option("first", "temperature, times the cost of the average op", 3,
                                {1e-9, 1e6}),
                  number_option("last", "temperature, times the same", 0.002, {1e-9, 1e6})},
      .decide = decide_by_anneal};
}

}  // namespace lowtide::strategy
