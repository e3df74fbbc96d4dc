#include <algorithm>
#include <limits>
#include <optional>

#include "base/budget.h"
#include "base/error.h"
#include "certify/certificate.h"
#include "fuzz/asked.h"
#include "plan/replay.h"
#include "planner/frontier.h"
#include "planner/known_plans.h"
#include "planner/more_budget.h"
#include "support/ask.h"
#include "support/same_graph.h"

namespace lowtide::testing {
namespace {

using planner::Planned;
using strategy::Strategy;

constexpr double kSecondsOfPlan = 0.02;  // of counted work

/// A request for a plan.
struct Question {
  const Strategy* strategy;
  Bytes budget;
  strategy::GivenOptions options;

  std::string text() const { return fmt::format("{} within {}", strategy->name, budget); }
};

/// Nothing where the strategy says that the graph is too large for its solver.
std::optional<Planned> planned(const Graph& graph, const Question& question) {
  Control control = Control::by_work(kSecondsOfPlan);
  try {
    return planner::plan_within(graph, *question.strategy, question.budget, question.options,
                                control);
  } catch (const InputError& error) {
    if (std::string_view(error.what()).find("rows and") == std::string_view::npos) throw;
    return std::nullopt;
  }
}

std::string in_short(const Planned& answer) {
  if (!answer.plan) return fmt::format("none ({})", answer.smallest_budget.value_or(-1));
  return fmt::format("{} in {}", answer.plan->cost, answer.plan->layout->arena_bytes);
}

/// Short searches with some of the choices and switches of the strategy. Another solver would be a
/// process of its own, whose work nobody counts.
strategy::GivenOptions some_options(const Strategy& strategy, Chance& chance) {
  strategy::GivenOptions options = short_search(strategy.name, 1);
  for (const strategy::StrategyOption& option : strategy.options) {
    const bool is_drawn = option.kind == strategy::OptionKind::choice ||
                          option.kind == strategy::OptionKind::on_off || option.name == "seed";
    if (is_drawn && option.name != "solver" && chance.percent(20)) {
      options[std::string(option.name)] = chance.between(static_cast<std::int64_t>(option.low),
                                                         std::min<std::int64_t>(5, option.high));
    }
  }
  return options;
}

class StrategyInterview {
 public:
  StrategyInterview(const Graph& graph, Chance& chance, PlanAnswers& answers)
      : graph_(graph), chance_(chance), answers_(answers) {}

  void ask(const Strategy& strategy) {
    const Question question{&strategy, some_budget(graph_, chance_),
                            some_options(strategy, chance_)};
    const std::optional<Planned> answer = planned(graph_, question);
    if (!answer) return;
    take(question, *answer);
    if (chance_.percent(20)) expect_the_same(question, *answer, graph_, "asked again");
    if (chance_.percent(20)) {
      expect_the_same(question, *answer, relabelled(graph_, chance_.number()), "relabelled");
    }
    if (answer->plan && answer->plan->lower_bound) expect_bound_with_more(question, *answer);
    if (answer->plan || !answer->smallest_budget) return;
    expect_that_it_does(question, *answer);
  }

  /// Whatever a search finds, a plan that is known for less is no better.
  void ask_with_known_plans(const Strategy& strategy) {
    planner::KnownPlans known;
    std::vector<Planned> earlier;
    for (int i = 0; i < 3; ++i) {
      const Question question{&strategy, some_budget(graph_, chance_),
                              short_search(strategy.name, 1)};
      std::optional<Planned> answer = planned(graph_, question);
      if (!answer) return;
      earlier.push_back(known.best(graph_, *std::move(answer)));
      take(question, earlier.back());
      for (const Planned& other : earlier) expect_no_worse(question, earlier.back(), other);
    }
  }

  void ask_for_frontier(const Strategy& strategy) {
    Control control = Control::by_work(3 * kSecondsOfPlan);
    planner::Frontier found;
    try {
      found = planner::frontier(graph_, strategy, 3, short_search(strategy.name, 1), control);
    } catch (const InputError&) {
      return;  // too large for its solver
    }
    const Planned* larger = nullptr;
    for (const Planned& point : found.points) {
      const Question question{&strategy, point.budget_bytes, {}};
      take(question, point);
      answers_.check(larger == nullptr || larger->plan->cost <= point.plan->cost,
                     "{}: the frontier says less for less", question.text());
      larger = &point;
    }
  }

  /// What holds for every order holds for this one, and the other way round.
  void ask_in_another_order(const Strategy& strategy) {
    const Graph other = reordered(graph_, chance_.number());
    PlanAnswers there(other);
    StrategyInterview interview(other, chance_, there);
    interview.ask(strategy);
    answers_.check(structural_floor(other).bytes == structural_floor(graph_).bytes,
                   "another order has another floor");
    there.compare();
    answers_.compare_bounds_with(there);
    there.compare_bounds_with(answers_);
    there.tally().graphs = 0;
    answers_.tally() += there.tally();
  }

 private:
  void take(const Question& question, const Planned& answer) {
    answers_.take(answer, question.budget, question.text());
    answers_.check(answer.repeatable, "{}: not repeatable", question.text());
  }

  void expect_the_same(const Question& question, const Planned& before, const Graph& graph,
                       const char* how) {
    const std::optional<Planned> again = planned(graph, question);
    const auto arena = [](const Planned& answer) {
      return answer.plan ? answer.plan->layout->arena_bytes : 0;
    };
    const bool is_same = again && again->outcome == before.outcome &&
                         again->smallest_budget == before.smallest_budget &&
                         again->plan.has_value() == before.plan.has_value() &&
                         (!before.plan || again->plan->cost == before.plan->cost) &&
                         arena(*again) == arena(before);
    answers_.check(is_same, "{}: {} before, {} when {}", question.text(), in_short(before),
                   again ? in_short(*again) : "nothing", how);
  }

  void expect_that_it_does(Question question, const Planned& refused) {
    question.budget = *refused.smallest_budget;
    const std::optional<Planned> answer = planned(graph_, question);
    answers_.check(answer && answer->plan, "{}: not even what it names does: {}", question.text(),
                   answer ? answer->message : "");
    take(question, *answer);
    ++answers_.tally().refusals;
    if (question.budget == 0 || !chance_.percent(30)) return;
    question.budget -= 1;
    if (const auto less = planned(graph_, question)) take(question, *less);
  }

  void expect_no_worse(const Question& question, const Planned& answer, const Planned& earlier) {
    const bool fits = earlier.plan && earlier.plan->layout->arena_bytes <= question.budget &&
                      graph_.after_bytes() == 0;
    answers_.check(!fits || (answer.plan && answer.plan->cost <= earlier.plan->cost),
                   "{}: worse than a known plan", question.text());
  }

  /// A bound on what a larger budget saves is one on plans within that.
  void expect_bound_with_more(const Question& question, const Planned& answer) {
    const Bytes extra = chance_.between(1, std::max<Bytes>(1, answer.keep_all_peak_bytes / 2));
    if (question.budget > kUnlimitedBytes) return;
    const auto saves = planner::bound_with_more(graph_, answer, extra).saves_at_most;
    if (!saves) return;
    answers_.take_bound(fmt::format("{} and {} more", question.text(), extra),
                        answer.plan->cost - *saves, question.budget + extra,
                        answer.certificate->chain ? "any-order" : "fixed-order");
  }

  const Graph& graph_;
  Chance& chance_;
  PlanAnswers& answers_;
};

}  // namespace

Bytes some_budget(const Graph& graph, Chance& chance) {
  const Bytes floor = structural_floor(graph).bytes;
  const Bytes peak = std::max(floor, keep_all_reference(graph).peak_bytes);
  switch (chance.below(12)) {
    case 0: return 0;
    case 1: return chance.percent(50) ? kUnlimitedBytes : std::numeric_limits<Bytes>::max();
    case 2: return floor;
    case 3: return std::max<Bytes>(0, floor - 1);
    case 4: return peak;
    case 5: return std::max<Bytes>(0, peak - 1);
    case 6: return peak + graph.after_bytes();
    default: return chance.between(floor, peak);
  }
}

void ask_strategies(const Graph& graph, Chance& chance, PlanAnswers& answers) {
  StrategyInterview interview(graph, chance, answers);
  const auto all = strategy::strategies();
  for (const Strategy& strategy : all) interview.ask(strategy);
  const auto some = [&]() -> const Strategy& {
    return all[static_cast<std::size_t>(chance.below(static_cast<int>(all.size())))];
  };
  if (chance.percent(30)) interview.ask_with_known_plans(some());
  if (chance.percent(30)) interview.ask_for_frontier(some());
  if (chance.percent(50)) interview.ask_in_another_order(some());
}

}  // namespace lowtide::testing
