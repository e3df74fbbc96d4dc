#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <limits>
#include <random>
#include <vector>

#include "certify/accept.h"
#include "certify/check.h"
#include "offload/joint.h"
#include "plan/places.h"
#include "plan/replay.h"
#include "support/ask.h"
#include "support/check_plan.h"
#include "support/random_graph.h"
#include "support/random_moves.h"
#include "support/sweep.h"

namespace lowtide::offload {
namespace {

using planner::Planned;
using testing::chain_graph;
using testing::share_of_peak;

/// By counted work, so that the answer is the same on every machine.
Planned planned_in(const Graph& graph, Bytes budget, const Slower& slower, Ways ways) {
  Control control = Control::by_work(0.02);
  return plan_with(graph, budget, slower, ways, control);
}

double cost_in(const Planned& planned) {
  return planned.plan ? planned.plan->cost : std::numeric_limits<double>::infinity();
}

constexpr Lanes lanes_of_speed(double per_byte) {
  return {.out = {0, per_byte}, .in = {0, per_byte}};
}

/// A few values in the first place and as many as one likes in the second.
Slower two_places(const Lanes& first, Bytes first_bytes, const Lanes& second) {
  return {.lanes = first, .bytes = first_bytes, .second = SecondSlower{.lanes = second}};
}

PlaceBytes places(const Planned& planned) { return bytes_of_places(*planned.plan->slower); }

TEST(PlanWithTwoPlaces, WhatTheFirstHasNoRoomForLiesInTheSecond) {
  const Graph graph = chain_graph(16, 4096);
  const Bytes budget = share_of_peak(graph, 0.5);
  const Slower slower = two_places(lanes_of_speed(2e-5), 2 * 4096, lanes_of_speed(2e-3));
  const Planned both = planned_in(graph, budget, slower, Ways::move);
  const Planned second = planned_in(graph, budget, only_second(slower), Ways::move);
  ASSERT_TRUE(both.plan && second.plan) << both.message;
  EXPECT_FALSE(planned_in(graph, budget, only_first(slower), Ways::move).plan);
  EXPECT_EQ(places(both).first, 2 * 4096);
  EXPECT_GT(places(both).second, 0);
  EXPECT_LT(cost_in(both), cost_in(second));
}

TEST(PlanWithTwoPlaces, TwoSlowLanesCopyMoreThanOne) {
  const Graph graph = chain_graph(16, 4096);
  const Bytes budget = share_of_peak(graph, 0.4);
  const Slower slower = two_places(lanes_of_speed(5e-4), 1 << 20, lanes_of_speed(5e-4));
  const Planned both = planned_in(graph, budget, slower, Ways::move);
  const Planned one = planned_in(graph, budget, only_first(slower), Ways::move);
  ASSERT_TRUE(both.plan && one.plan);
  EXPECT_LT(cost_in(both), 0.9 * cost_in(one));
}

TEST(PlanWithTwoPlaces, BuffersOfAPlaceThatIsNotUsedAreMemoryOfThePlan) {
  const Graph graph = chain_graph(12, 4096);
  const Bytes budget = share_of_peak(graph, 0.6);
  Slower slower = two_places(lanes_of_speed(1e-5), 1 << 20, lanes_of_speed(1e-5));
  slower.second->buffers = budget;
  const Planned planned = planned_in(graph, budget, slower, Ways::move);
  ASSERT_TRUE(planned.plan) << planned.message;
  EXPECT_EQ(places(planned).second, 0);
  EXPECT_EQ(planned.reserved_bytes, 0);
}

TEST(PlanWithTwoPlaces, MethodsOfOthersUseOne) {
  const Graph graph = chain_graph(12, 4096);
  const Slower slower = two_places(lanes_of_speed(1e-3), 1 << 20, lanes_of_speed(1e-5));
  const Planned planned = planned_in(graph, share_of_peak(graph, 0.6), slower, Ways::capuchin);
  ASSERT_TRUE(planned.plan) << planned.message;
  EXPECT_TRUE(testing::is_valid_plan(graph, *planned.plan));
  EXPECT_EQ(places(planned).first, 0);
}

TEST(PlanWithTwoPlaces, ARefusalNamesTheFloor) {
  const Graph graph = chain_graph(12);
  const Slower slower = two_places(lanes_of_speed(1e-5), 4096, lanes_of_speed(1e-5));
  for (Ways ways : {Ways::rerun, Ways::move, Ways::both}) {
    const Planned planned = planned_in(graph, 2000, slower, ways);
    EXPECT_FALSE(planned.plan);
    EXPECT_THAT(planned.message, ::testing::HasSubstr("infeasible: "));
  }
}

/// Of a small first place and of a second one that often has no limit.
constexpr std::optional<Bytes> kFirstLimits[] = {{},   0,        1,        4095,    4096,
                                                 4097, 2 * 4096, 3 * 4096, 5 * 4096};
constexpr std::optional<Bytes> kSecondLimits[] = {{}, {}, {}, 0, 4095, 4 * 4096, 24 * 4096};

struct PlacesProblem {
  Graph graph;
  Slower slower;
  Bytes budget;
};

PlacesProblem draw_places_problem(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  Graph graph = seed % 3 == 0   ? testing::random_step(seed, 10, 8)
                : seed % 3 == 1 ? testing::random_graph(seed, {.ops = 24})
                                : chain_graph(8 + static_cast<int>(seed % 9));
  Slower slower{.lanes = testing::some_lanes(seed),
                .bytes = kFirstLimits[random() % std::size(kFirstLimits)],
                .residents = random() % 4 == 0,
                .second = SecondSlower{.lanes = testing::some_lanes(seed + 1000)}};
  slower.second->bytes = kSecondLimits[random() % std::size(kSecondLimits)];
  if (random() % 4 == 0) slower.second->buffers = 64 * static_cast<Bytes>(random() % 16);
  const Bytes budget = share_of_peak(graph, 0.4 + 0.1 * static_cast<double>(random() % 5));
  return {std::move(graph), slower, budget};
}

/// Counts the plans with copies in both places.
void expect_within_all_limits(const Planned& planned, const PlacesProblem& problem, int& in_both) {
  EXPECT_LE(planned.plan->layout->arena_bytes + planned.reserved_bytes, problem.budget);
  if (!planned.plan->slower) return;
  ASSERT_TRUE(planned.plan->slower->second);
  const PlaceBytes bytes = places(planned);
  EXPECT_LE(bytes.first, problem.slower.bytes.value_or(bytes.first));
  EXPECT_LE(bytes.second, problem.slower.second->bytes.value_or(bytes.second));
  in_both += bytes.first > 0 && bytes.second > 0;
}

/// The proof is for any use of both places.
void expect_proved_in_places(const Graph& graph, const Planned& planned) {
  EXPECT_LE(*planned.plan->lower_bound, planned.plan->cost * (1 + 1e-9));
  if (planned.reserved_bytes > 0) return;  // the proof is for the budget with buffers
  ASSERT_TRUE(planned.certificate);
  EXPECT_TRUE(testing::is_accepted(certify::certify(graph, *planned.plan, *planned.certificate)));
}

TEST(PlanWithTwoPlacesProperty, PlansAreValidWithinAllLimitsAndNoWorseThanWithOnePlace) {
  std::deque<PlacesProblem> all;
  std::deque<Plan> plans;
  std::vector<testing::PlanCase> cases;
  int in_both = 0, better = 0;
  for (std::uint64_t seed = 0; seed < testing::sweep(400u, 30u); ++seed) {
    SCOPED_TRACE(seed);
    const PlacesProblem& problem = all.emplace_back(draw_places_problem(seed));
    const Ways ways = seed % 2 == 0 ? Ways::move : Ways::both;
    const auto cost_with = [&](const Slower& slower) {
      return cost_in(planned_in(problem.graph, problem.budget, slower, ways));
    };
    const double one =
        std::min(cost_with(only_first(problem.slower)), cost_with(only_second(problem.slower)));
    Planned both = planned_in(problem.graph, problem.budget, problem.slower, ways);
    EXPECT_TRUE(both.repeatable);
    EXPECT_TRUE(both.plan || !both.message.empty());
    constexpr double kEnough = 1.0001;  // a plan that is good enough ends the search
    EXPECT_LE(cost_in(both), one * kEnough);
    better += cost_in(both) < one;
    if (!both.plan) continue;
    expect_within_all_limits(both, problem, in_both);
    expect_proved_in_places(problem.graph, both);
    cases.push_back({&problem.graph, &plans.emplace_back(*std::move(both.plan))});
  }
  EXPECT_GT(in_both, 0);
  EXPECT_GT(better, 0);
  EXPECT_TRUE(testing::are_valid_plans(cases));
}

}  // namespace
}  // namespace lowtide::offload
