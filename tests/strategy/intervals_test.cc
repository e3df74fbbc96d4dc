// Retention intervals: conflicts, branch and bound against all plans, and the strategy as a whole.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

#include "base/error.h"
#include "plan/in_place.h"
#include "plan/lower.h"
#include "plan/replay.h"
#include "planner/planner.h"
#include "strategy/intervals/branch_and_bound.h"
#include "support/ask.h"
#include "support/brute_force.h"
#include "support/cheapest_sequence.h"
#include "support/random_graph.h"
#include "support/small_graphs.h"
#include "support/stopping.h"

namespace lowtide::strategy {
namespace {

using testing::all_plans;
using testing::allowed_events;
using testing::ask;
using testing::Candidate;
using testing::kNever;
using testing::random_graph;
using testing::share_of_peak;

/// The events of a subset, numbered as all_plans() numbers them.
std::vector<remat::Event> subset(const std::vector<remat::Event>& events, std::uint32_t set) {
  std::vector<remat::Event> chosen;
  for (std::size_t e = 0; e < events.size(); ++e) {
    if (set >> e & 1) chosen.push_back(events[e]);
  }
  return chosen;
}

int most_runs(const std::vector<remat::Event>& events) {
  std::map<int, int> runs;
  int most = 1;
  for (remat::Event event : events) most = std::max(most, 1 + ++runs[event.op]);
  return most;
}

/// Graphs small enough to try all plans, with those plans.
template <class Check>
void for_small_graphs(std::uint64_t seed, int count, std::size_t most_events, const Check& check) {
  for (int graphs = 0; graphs < count; ++seed) {
    const Graph graph = random_graph(seed, {.ops = 5 + static_cast<int>(seed % 5)});
    const remat::StageGraph stages(graph);
    const std::vector<remat::Event> events = allowed_events(stages);
    if (events.size() < 3 || events.size() > most_events) continue;
    ++graphs;
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    check(graph, stages, events, all_plans(graph, stages, events));
  }
}

/// The rules let an op write a small value over a larger one, which plans of strategies do not.
TEST(Intervals, ABoundIsAlsoOneOnPlansWithOtherWritesInPlace) {
  const testing::Pattern falling{"falling", {6, 5, 4, 3, 2, 1}, {1, 2, 4, 8, 16, 32},
                                 kNone, kNone, /*in_place=*/true};
  int plans = 0;
  for (const testing::Shape& shape : testing::shapes(4)) {
    const Graph graph = testing::graph_of(shape, falling);
    const testing::CheapestSequence cheapest(graph);
    for (Bytes budget = structural_floor(graph).bytes;
         budget < keep_all_reference(graph).peak_bytes; ++budget) {
      const Decision decision = ask("intervals", graph, budget);
      plans += !decision.executions.empty();
      if (!decision.lower_bound) continue;
      EXPECT_LE(*decision.lower_bound, cheapest.cost(budget, testing::Sequences::staged))
          << graph.name() << " within " << budget;
    }
  }
  EXPECT_GT(plans, 0);
}

TEST(Conflict, MissesWhatTheStageIsAboveTheLimit) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    const Graph graph = random_graph(seed, {.ops = 10 + static_cast<int>(seed % 30)});
    const remat::StageGraph stages(graph);
    const std::vector<remat::Event> allowed = allowed_events(stages);
    remat::EventPlan plan(stages, 0);
    std::mt19937_64 random(seed);
    for (int i = 0; i < 20 && !allowed.empty(); ++i) {
      const remat::Event event = allowed[random() % allowed.size()];
      plan.contains(event) ? plan.remove(event) : plan.add(event);
    }
    for (int t = 0; t < stages.num_stages(); ++t) {
      ASSERT_EQ(intervals::conflict_in(stages, plan, t).missing, plan.memory().at(t))
          << "stage " << t;
    }
  }
}

/// Bytes of the ways out that belong to reruns in `more` that are not in `plan`.
Bytes promised(const intervals::Conflict& conflict, const remat::EventPlan& plan,
               const std::vector<remat::Event>& more) {
  Bytes bytes = 0;
  for (const intervals::WayOut& way : conflict.ways) {
    const bool taken = std::ranges::any_of(more, [&](remat::Event event) {
      return event.op == way.op && way.first <= event.stage && event.stage <= way.last &&
             !plan.contains(event);
    });
    if (taken) bytes += way.bytes;
  }
  return bytes;
}

TEST(Conflict, EveryPlanThatMendsItTakesItsWaysOut) {
  std::mt19937_64 random(5);
  int mended = 0;
  for_small_graphs(
      300, 40, 10,
      [&](const Graph&, const remat::StageGraph& stages, const std::vector<remat::Event>& events,
          const std::vector<Candidate>& plans) {
        for (int i = 0; i < 12; ++i) {
          const auto base = static_cast<std::uint32_t>(random() % plans.size());
          const Bytes limit = plans[random() % plans.size()].in_place_peak;
          remat::EventPlan plan(stages, limit);
          remat::change_to(plan, subset(events, base));
          for (int t = 0; t < stages.num_stages(); ++t) {
            const intervals::Conflict conflict = intervals::conflict_in(stages, plan, t);
            if (conflict.missing <= 0) continue;
            for (std::uint32_t set = 0; set < plans.size(); ++set) {
              if ((set & base) != base || plans[set].in_place_peak > limit) continue;
              ++mended;
              ASSERT_GE(promised(conflict, plan, subset(events, set)), conflict.missing)
                  << "stage " << t << " sets " << base << " " << set;
            }
          }
        }
      });
  EXPECT_GT(mended, 100);
}

TEST(BranchAndBound, FindsTheOptimumForEveryNumberOfIntervals) {
  int capped = 0;
  for_small_graphs(
      600, 40, 12,
      [&](const Graph&, const remat::StageGraph& stages, const std::vector<remat::Event>& events,
          const std::vector<Candidate>& plans) {
        for (int intervals : {1, 2, 3, 100}) {
          for (double share : {0.9, 0.75, 0.6}) {
            const auto limit =
                static_cast<Bytes>(share * static_cast<double>(plans.front().in_place_peak));
            double optimum = kNever;
            double free_optimum = kNever;
            for (std::uint32_t set = 0; set < plans.size(); ++set) {
              if (plans[set].in_place_peak > limit) continue;
              free_optimum = std::min(free_optimum, plans[set].cost);
              if (most_runs(subset(events, set)) > intervals) continue;
              optimum = std::min(optimum, plans[set].cost);
            }
            for (bool thorough : {false, true}) {
              remat::EventPlan plan(stages, limit);
              const intervals::Effort effort{
                  .cost_below = kNever, .conflicts = 1'000'000, .thorough = thorough};
              const intervals::Branched found =
                  intervals::BranchAndBound(stages, intervals)
                      .run(plan, intervals::all_starts(stages), effort, Control());
              ASSERT_TRUE(found.complete);
              ASSERT_EQ(found.events.has_value(), optimum != kNever);
              ASSERT_TRUE(plan.events().empty());
              if (found.events) {
                ASSERT_NEAR(found.cost, optimum, 1e-9);
                ASSERT_LE(most_runs(*found.events), intervals);
              }
              if (!found.capped) {
                ASSERT_EQ(optimum, free_optimum);
              }
              capped += found.capped;
            }
          }
        }
      });
  EXPECT_GT(capped, 20);
}

TEST(Intervals, ProvesTheOptimumOfSmallGraphs) {
  for_small_graphs(0, 40, 12,
                   [&](const Graph& graph, const remat::StageGraph&,
                       const std::vector<remat::Event>&, const std::vector<Candidate>& plans) {
                     for (double share : {0.9, 0.75, 0.6}) {
                       const auto budget = static_cast<Bytes>(
                           share * static_cast<double>(plans.front().in_place_peak));
                       const double optimum = least_cost(plans, &Candidate::in_place_peak, budget);
                       const Decision decision =
                           ask("intervals", graph, budget, {{"intervals", 100}, {"rounds", 5}});
                       if (optimum == kNever) {
                         ASSERT_EQ(decision.outcome, Outcome::infeasible);
                         continue;
                       }
                       ASSERT_EQ(decision.outcome, Outcome::optimal) << decision.message;
                       const Plan plan = with_in_place(graph, lower(graph, decision.executions));
                       ASSERT_LE(plan.peak_bytes, budget);
                       ASSERT_NEAR(plan.cost, optimum, 1e-6);
                       ASSERT_NEAR(decision.lower_bound.value(), optimum, 1e-6);
                     }
                   });
}

TEST(Intervals, NamesTheModelOfItsBound) {
  int capped = 0;
  const Graph graph = testing::chain_graph(7);
  for (double share : {0.9, 0.8, 0.7, 0.6}) {
    SCOPED_TRACE(share);
    const Bytes budget = share_of_peak(graph, share);
    const Decision any = ask("intervals", graph, budget, {{"intervals", 100}, {"conflicts", 1e6}});
    const Decision two = ask("intervals", graph, budget, {{"conflicts", 1e6}});
    ASSERT_EQ(any.outcome, Outcome::optimal);
    EXPECT_EQ(any.bound_model, "stages");
    if (two.outcome != Outcome::optimal) continue;
    EXPECT_GE(*two.lower_bound, *any.lower_bound);
    capped += two.bound_model == "intervals";
  }
  EXPECT_GT(capped, 0);
}

TEST(Intervals, WithOneIntervalKeepsAllOrNothingDoes) {
  const Graph graph = testing::chain_graph(6);
  const Bytes peak = share_of_peak(graph, 1);
  EXPECT_EQ(ask("intervals", graph, peak, {{"intervals", 1}}).outcome, Outcome::optimal);
  const Decision less = ask("intervals", graph, peak - 1, {{"intervals", 1}});
  EXPECT_EQ(less.outcome, Outcome::infeasible);
  EXPECT_EQ(less.smallest_peak, peak);
}

TEST(Intervals, KeepsToTheNumberOfIntervalsBeyondProofs) {
  int planned = 0;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const Graph graph = random_graph(seed, {.ops = 80});
    for (double intervals : {2.0, 3.0}) {
      const Decision decision = ask("intervals", graph, share_of_peak(graph, 0.9),
                                    {{"intervals", intervals}, {"rounds", 50}, {"conflicts", 0}});
      if (decision.outcome != Outcome::feasible) continue;
      ++planned;
      EXPECT_EQ(decision.lower_bound, std::nullopt);
      const remat::StageGraph stages(graph);
      EXPECT_LE(most_runs(remat::events_of(stages, decision.executions)), intervals);
    }
  }
  EXPECT_GE(planned, 8);
}

TEST(Intervals, GivesTheSamePlanAgain) {
  const Graph graph = random_graph(7, {.ops = 60});
  const Bytes budget = share_of_peak(graph, 0.8);
  const GivenOptions options{{"rounds", 60}, {"seed", 3}};
  EXPECT_EQ(ask("intervals", graph, budget, options).executions,
            ask("intervals", graph, budget, options).executions);
}

TEST(Intervals, MoreRoundsNeverCostMore) {
  const Graph graph = testing::chain_graph(40);
  const Bytes budget = share_of_peak(graph, 0.5);
  double before = kNever;
  for (double rounds : {0.0, 30.0, 200.0}) {
    const Decision decision =
        ask("intervals", graph, budget, {{"rounds", rounds}, {"conflicts", 0}});
    ASSERT_EQ(decision.outcome, Outcome::feasible) << decision.message;
    const double cost = lower(graph, decision.executions).cost;
    EXPECT_LE(cost, before);
    before = cost;
  }
  EXPECT_LT(before, 3 * 40 + 40);  // less than one more forward pass
}

TEST(Intervals, EndsWhenTheUserSaysSo) { testing::expect_end_when_user_says_so("intervals"); }

TEST(Intervals, ALimitOfWorkEndsIt) {
  const Graph graph = testing::chain_graph(800);
  const Strategy& intervals = find_strategy("intervals");
  const StrategyOptions options = default_options(intervals);
  Control control = Control::by_work(0.01);
  const Decision decision =
      intervals.decide({graph, share_of_peak(graph, 0.2), options, control});
  EXPECT_EQ(decision.outcome, Outcome::stopped);
  EXPECT_GE(control.used_seconds(), 0.01);
}

TEST(Intervals, RefusesNoIntervals) {
  const Graph graph = testing::chain_graph(3);
  Control control;
  EXPECT_THROW(
      planner::plan_within(graph, find_strategy("intervals"), 1 << 20, {{"intervals", 0}}, control),
      InputError);
}

}  // namespace
}  // namespace lowtide::strategy
