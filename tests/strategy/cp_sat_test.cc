// CP-SAT as a child process, against all plans of small graphs. Needs OR-Tools in the interpreter
// that LOWTIDE_PYTHON names, or in python3.

#include "strategy/intervals/cp_sat.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <optional>

#include "base/error.h"
#include "support/ask.h"
#include "support/brute_force.h"
#include "support/random_graph.h"

namespace lowtide::strategy {
namespace {

using testing::ask;
using testing::Candidate;
using testing::kNever;
using testing::share_of_peak;

bool has_or_tools() {
  const char* named = std::getenv("LOWTIDE_PYTHON");
  const std::string python = named != nullptr ? named : "python3";
  return std::system((python + " -c 'import ortools' >/dev/null 2>&1").c_str()) == 0;
}

TEST(CpSat, FindsTheOptimumOfSmallGraphs) {
  if (!has_or_tools()) GTEST_SKIP() << "OR-Tools is not installed";
  int graphs = 0;
  for (std::uint64_t seed = 40; graphs < 3; ++seed) {
    const Graph graph = testing::random_graph(seed, {.ops = 6 + static_cast<int>(seed % 4)});
    const remat::StageGraph stages(graph);
    const std::vector<remat::Event> events = testing::allowed_events(stages);
    if (events.size() < 4 || events.size() > 12) continue;
    ++graphs;
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    const std::vector<Candidate> plans = testing::all_plans(graph, stages, events);
    for (double share : {0.9, 0.7}) {
      const auto budget =
          static_cast<Bytes>(share * static_cast<double>(plans.front().in_place_peak));
      const double optimum = least_cost(plans, &Candidate::in_place_peak, budget);
      double best = kNever;
      const auto take = [&](std::span<const remat::Event> found) {
        remat::EventPlan plan(stages, budget);
        remat::change_to(plan, {found.begin(), found.end()});
        EXPECT_TRUE(plan.fits());
        best = std::min(best, plan.cost());
      };
      const intervals::CpSatProof proof = intervals::solve_with_cp_sat(
          stages, {.budget = budget, .most_intervals = 12, .on_solution = take}, Control());
      EXPECT_EQ(proof.infeasible, optimum == kNever);
      if (optimum == kNever) continue;
      EXPECT_NEAR(best, optimum, 1e-6);
      EXPECT_NEAR(proof.bound, optimum, 1e-6);
    }
  }
}

TEST(CpSat, AgreesWithTheOwnBranchAndBound) {
  if (!has_or_tools()) GTEST_SKIP() << "OR-Tools is not installed";
  const Graph graph = testing::chain_graph(7);
  const Bytes budget = share_of_peak(graph, 0.7);
  const Decision own = ask("intervals", graph, budget, {{"conflicts", 1e6}});
  const Decision theirs = ask("intervals", graph, budget, {{"solver", "cp-sat"}, {"rounds", 0}});
  ASSERT_EQ(own.outcome, theirs.outcome);
  ASSERT_EQ(own.outcome, Outcome::optimal);
  EXPECT_NEAR(*own.lower_bound, *theirs.lower_bound, 1e-6);
  EXPECT_EQ(theirs.bound_model, "intervals");
}

TEST(CpSat, EndsWithTheTimeAndKeepsTheBest) {
  if (!has_or_tools()) GTEST_SKIP() << "OR-Tools is not installed";
  const Graph graph = testing::chain_graph(60);
  const Bytes budget = share_of_peak(graph, 0.4);
  const Strategy& intervals = find_strategy("intervals");
  StrategyOptions options = default_options(intervals);
  options["solver"] = 1;
  Control control(2);
  const Decision decision = intervals.decide({graph, budget, options, control});
  ASSERT_EQ(decision.outcome, Outcome::feasible);
  EXPECT_GE(decision.lower_bound.value(), remat::StageGraph(graph).required_cost());
}

TEST(CpSat, SaysWhatIsMissing) {
  const char* before = std::getenv("LOWTIDE_PYTHON");
  const std::optional<std::string> kept =
      before != nullptr ? std::optional<std::string>(before) : std::nullopt;
  ::setenv("LOWTIDE_PYTHON", "no-such-python", 1);
  const Graph graph = testing::chain_graph(7);
  try {
    ask("intervals", graph, share_of_peak(graph, 0.7), {{"solver", "cp-sat"}});
    ADD_FAILURE() << "no exception";
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("pip install ortools"));
    EXPECT_THAT(error.what(), ::testing::HasSubstr("no-such-python"));
  }
  kept ? ::setenv("LOWTIDE_PYTHON", kept->c_str(), 1) : ::unsetenv("LOWTIDE_PYTHON");
}

}  // namespace
}  // namespace lowtide::strategy
