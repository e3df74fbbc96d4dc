#include <fmt/format.h>

#include <algorithm>

#include "strategy/answer.h"
#include "strategy/evolve/breeding.h"
#include "strategy/search/descent.h"
#include "strategy/strategy.h"

namespace lowtide::strategy {
namespace {

class Evolution {
 public:
  explicit Evolution(const PlanRequest& request)
      : request_(request),
        graph_(request.graph),
        breeding_(graph_, request.budget_bytes,
                  static_cast<std::uint64_t>(request.options.at("seed")), request.control),
        size_(static_cast<std::size_t>(request.options.at("population"))),
        generations_(static_cast<int>(request.options.at("generations"))) {}

  Decision decide() {
    if (auto kept = keep_all_if_it_fits(graph_, request_.budget_bytes)) return *std::move(kept);
    if (!request_.start.empty()) go_on();
    if (!settle()) {
      const search::Descent smallest =
          search::descend(graph_, request_.budget_bytes, request_.control);
      if (smallest.peak > request_.budget_bytes) {
        return nothing_fits(smallest.peak, remat::executions_of(graph_, smallest.events),
                            "evolution", request_.control);
      }
      add(smallest.events);
    }
    for (int i = 0; i < generations_ && !request_.control.should_stop(); ++i) breed(i);
    return answer();
  }

 private:
  /// Starts from the earlier answer, which needs fewer generations.
  void go_on() {
    add(remat::events_of(graph_, request_.start));
    generations_ = (generations_ + 2) / 3;
  }

  /// Makes the first generation: everything kept, and repaired in many ways. Returns whether any
  /// fits. If the first few do not fit, more of them will not either.
  bool settle() {
    constexpr std::size_t kEnough = 4;
    const auto fits = [&] { return !population_.empty() && fittest().excess == 0; };
    while (population_.size() < size_ && !request_.control.should_stop()) {
      if (population_.size() >= kEnough && !fits()) break;
      add({});
    }
    return fits();
  }

  void add(std::vector<remat::Event> events) {
    std::ranges::sort(events);
    population_.push_back(breeding_.raise(std::move(events)));
  }

  /// The two fittest stay.
  void breed(int generation) {
    constexpr std::size_t kElite = 2;
    const double mutation = request_.options.at("mutation");
    std::ranges::sort(population_, evolve::is_fitter);
    std::vector<evolve::Individual> next(
        population_.begin(), population_.begin() + std::min(kElite, population_.size()));
    while (next.size() < size_ && !request_.control.should_stop()) {
      const evolve::Individual& left = population_[breeding_.select(population_)];
      const evolve::Individual& right = population_[breeding_.select(population_)];
      evolve::Individual child = breeding_.cross(left, right);
      const bool is_copy = child.events == left.events || child.events == right.events;
      if (is_copy || breeding_.chance(mutation)) child = breeding_.mutate(child);
      next.push_back(std::move(child));
    }
    population_ = std::move(next);
    request_.control.report(fmt::format("generation {}: plan {:.3f}%", generation + 1,
                                        100 * (fittest().cost / graph_.required_cost() - 1)));
  }

  const evolve::Individual& fittest() const {
    return *std::ranges::min_element(population_, evolve::is_fitter);
  }

  Decision answer() const {
    Decision result;
    result.outcome = Outcome::feasible;
    result.executions = remat::executions_of(graph_, fittest().events);
    return result;
  }

  const PlanRequest& request_;
  remat::StageGraph graph_;
  evolve::Breeding breeding_;
  std::size_t size_;
  int generations_;
  std::vector<evolve::Individual> population_;
};

Decision decide_by_evolve(const PlanRequest& request) { return Evolution(request).decide(); }

}  // namespace

Strategy evolve_strategy() {
  return {.name = "evolve",
          .summary = "a genetic algorithm over retention intervals, each child repaired",
          .guarantee = "any graph; the same plan for the same seed; no bound",
          .paper = "Holland: Adaptation in natural and artificial systems, 1975",
          .options = {integer_option("population", "plans of a generation", 80, {2, 1e5}, "plans"),
                      integer_option("generations", "at most", 100, {0, 1e9}),
                      number_option("mutation", "share of children that mutate", 0.5, {0, 1}),
                      seed_option()},
          .decide = decide_by_evolve};
}

}  // namespace lowtide::strategy
