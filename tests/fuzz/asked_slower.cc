#include <limits>
#include <map>

#include "base/error.h"
#include "fuzz/asked.h"
#include "offload/joint.h"
#include "support/random_moves.h"

namespace lowtide::testing {
namespace {

using offload::Slower;
using offload::Ways;
using planner::Planned;

constexpr double kSecondsOfWay = 0.01;  // of counted work, for each search
constexpr double kEnough = 1.0001;      // a plan that is good enough ends a search

std::optional<Bytes> some_limit(Chance& chance) {
  switch (chance.below(4)) {
    case 0: return chance.below(9) * kCopyAlignment;
    case 1: return chance.between(0, 40'000);
    default: return std::nullopt;
  }
}

Slower some_slower(Chance& chance) {
  Slower slower{.lanes = some_lanes(chance.number()), .bytes = some_limit(chance)};
  slower.residents = chance.percent(40);
  if (chance.percent(30)) slower.buffers = chance.between(0, 1000);
  if (!chance.percent(30)) return slower;
  slower.second = {.lanes = some_lanes(chance.number()), .bytes = some_limit(chance)};
  if (chance.percent(30)) slower.second->buffers = chance.between(0, 1000);
  return slower;
}

class SlowerInterview {
 public:
  SlowerInterview(const Graph& graph, Bytes budget, PlanAnswers& answers)
      : graph_(graph), budget_(budget), answers_(answers) {}

  /// The cost of the answer; infinite without a plan.
  double ask(const Slower& slower, Ways ways) {
    const std::optional<Planned> answer = planned(budget_, slower, ways);
    if (!answer) return kNothing;
    const std::string what =
        fmt::format("{} within {}{}{}", name(ways), budget_,
                    slower.residents ? ", residents too" : "", slower.second ? ", two places" : "");
    answers_.take(*answer, budget_ - answer->reserved_bytes, what, &slower);
    answers_.check(answer->repeatable, "{}: not repeatable", what);
    return answer->plan ? answer->plan->cost : kNothing;
  }

  void expect_no_worse(double with_more, double with_less, const char* more) {
    answers_.check(with_more <= with_less * kEnough, "within {}, {} costs {}, and less allowed {}",
                   budget_, more, with_more, with_less);
  }

 private:
  static constexpr double kNothing = std::numeric_limits<double>::infinity();

  /// Nothing where the graph is too large for the solver.
  std::optional<Planned> planned(Bytes budget, const Slower& slower, Ways ways) const {
    Control control = Control::by_work(kSecondsOfWay);
    try {
      return offload::plan_with(graph_, budget, slower, ways, control);
    } catch (const InputError&) {
      if (ways != Ways::poet) throw;
      return std::nullopt;
    }
  }

  const Graph& graph_;
  const Bytes budget_;
  PlanAnswers& answers_;
};

}  // namespace

void ask_with_slower_memory(const Graph& graph, Chance& chance, PlanAnswers& answers) {
  const Slower slower = some_slower(chance);
  SlowerInterview interview(graph, some_budget(graph, chance), answers);
  std::map<Ways, double> costs;
  for (Ways ways :
       {Ways::rerun, Ways::move, Ways::both, Ways::save_on_cpu, Ways::capuchin, Ways::poet}) {
    costs[ways] = interview.ask(slower, ways);
  }
  interview.expect_no_worse(costs[Ways::both], costs[Ways::rerun], "both ways");
  interview.expect_no_worse(costs[Ways::both], costs[Ways::move], "both ways");
  const Ways ways = chance.percent(50) ? Ways::move : Ways::both;
  if (slower.residents) {
    Slower less = slower;
    less.residents = false;
    interview.expect_no_worse(costs[ways], interview.ask(less, ways), "moving residents");
  }
  if (slower.second) {
    const Slower one =
        chance.percent(50) ? offload::only_first(slower) : offload::only_second(slower);
    interview.expect_no_worse(costs[ways], interview.ask(one, ways), "two places");
  }
}

}  // namespace lowtide::testing
