#include "offload/joint.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <limits>
#include <map>
#include <random>
#include <vector>

#include "certify/accept.h"
#include "certify/check.h"
#include "graph/handed_out.h"
#include "layout/sections.h"
#include "plan/replay.h"
#include "support/ask.h"
#include "support/check_plan.h"
#include "support/random_graph.h"
#include "support/random_moves.h"
#include "support/sweep.h"
#include "support/trained_chain.h"

namespace lowtide::offload {
namespace {

using planner::Planned;
using strategy::Outcome;
using ::testing::AllOf;
using testing::chain_graph;
using ::testing::HasSubstr;
using testing::share_of_peak;
using testing::trained_chain;

constexpr Lanes kFast{.out = {0, 1e-4}, .in = {0, 1e-4}};
constexpr Lanes kSlow{.out = {1000, 1}, .in = {1000, 1}};

/// By counted work, so that the answer is the same on every machine.
Planned plan(const Graph& graph, Bytes budget, const Slower& slower, Ways ways,
             double seconds = 0.05) {
  Control control = Control::by_work(seconds);
  return plan_with(graph, budget, slower, ways, control);
}

bool moves(const Plan& plan) {
  return std::ranges::any_of(plan.actions,
                             [](const Action& action) { return action.verb == Verb::prefetch; });
}

bool reruns(const Plan& plan) {
  std::map<std::int32_t, int> runs;
  return std::ranges::any_of(plan.actions, [&](const Action& action) {
    return action.verb == Verb::run && ++runs[action.index] > 1;
  });
}

TEST(PlanWith, NothingMovesWhereAllFits) {
  const Graph graph = chain_graph(10);
  for (Ways ways : {Ways::rerun, Ways::move, Ways::both}) {
    const Planned planned = plan(graph, share_of_peak(graph, 1), {kFast, {}}, ways);
    ASSERT_TRUE(planned.plan);
    EXPECT_FALSE(moves(*planned.plan) || planned.plan->slower);
    EXPECT_EQ(planned.plan->cost, planned.keep_all_cost);
  }
}

/// A chain, and an op that reads its end for nobody.
Graph chain_with_an_unneeded_op(int layers) {
  GraphData data = chain_graph(layers).data();
  const auto unneeded = static_cast<TensorId>(data.tensors.size());
  data.tensors.push_back(testing::value("unneeded", 64));
  data.ops.push_back(testing::op("unneeded", {data.outputs.front()}, {unneeded}, 1000));
  return Graph(std::move(data));
}

TEST(PlanWith, WhatNothingNeedsDoesNotRunInAnyWay) {
  const Graph graph = chain_with_an_unneeded_op(12);
  const double needed = keep_all_reference(graph).cost - 1000;
  for (Ways ways : {Ways::rerun, Ways::move, Ways::both}) {
    const Planned all = plan(graph, share_of_peak(graph, 1), {kFast, {}}, ways);
    ASSERT_TRUE(all.plan);
    EXPECT_NEAR(all.plan->cost, needed, 1e-6);
  }
  for (Ways ways : {Ways::move, Ways::both}) {
    const Planned moved = plan(graph, share_of_peak(graph, 0.6), {kFast, {}}, ways);
    ASSERT_TRUE(moved.plan);
    EXPECT_LT(moved.plan->cost, needed * 1.01);
  }
}

TEST(PlanWith, OnlyPlansThatMoveNeedBuffers) {
  const Graph graph = chain_graph(12);
  const Slower slower{.lanes = kFast, .buffers = share_of_peak(graph, 1)};
  for (Ways ways : {Ways::rerun, Ways::move, Ways::both}) {
    const Planned all = plan(graph, share_of_peak(graph, 1), slower, ways);
    ASSERT_TRUE(all.plan);
    EXPECT_EQ(all.plan->cost, all.keep_all_cost);
  }
  for (Ways ways : {Ways::rerun, Ways::both}) {
    Control control = Control::by_work(0.05);
    const Bytes budget = share_of_peak(graph, 0.6);
    const Planned some = plan_with(graph, budget, slower, ways, control, 512);
    ASSERT_TRUE(some.plan) << some.message;
    EXPECT_FALSE(moves(*some.plan));
    EXPECT_LE(some.plan->layout->arena_bytes, budget);
    EXPECT_EQ(some.reserved_bytes, 512);
  }
}

TEST(PlanWith, PlansThatMoveLeaveRoomForBuffers) {
  const Graph graph = chain_graph(12);
  const Bytes budget = share_of_peak(graph, 0.6);
  const Slower slower{.lanes = kFast, .buffers = 512};
  const Planned planned = plan(graph, budget + 512, slower, Ways::move);
  ASSERT_TRUE(planned.plan) << planned.message;
  EXPECT_TRUE(moves(*planned.plan));
  EXPECT_LE(planned.plan->layout->arena_bytes, budget);
  EXPECT_EQ(planned.reserved_bytes, 512);
}

TEST(PlanWith, ARefusalNamesTheBuffers) {
  const Graph graph = chain_graph(12);
  const Slower slower{.lanes = kFast, .buffers = share_of_peak(graph, 1)};
  const Planned planned = plan(graph, share_of_peak(graph, 0.6), slower, Ways::move);
  EXPECT_FALSE(planned.plan);
  EXPECT_THAT(planned.message, HasSubstr(fmt::format("({} bytes) for their buffers",
                                                     slower.buffers)));
}

TEST(PlanWith, FastLanesCostNothingOnAChain) {
  const Graph graph = chain_graph(12);
  const Bytes budget = share_of_peak(graph, 0.6);
  for (Ways ways : {Ways::move, Ways::both}) {
    const Planned planned = plan(graph, budget, {kFast, {}}, ways);
    ASSERT_TRUE(planned.plan) << planned.message;
    EXPECT_TRUE(moves(*planned.plan));
    EXPECT_NEAR(planned.overhead(), 0, 1e-3);
  }
}

TEST(PlanWith, LanesThatTakeNoTimeNeedOnlyTheMemoryOfOneOp) {
  for (int layers : {2, 3, 5, 8}) {
    const Graph graph = chain_graph(layers);
    const Planned planned = plan(graph, structural_floor(graph).bytes, {{}, {}}, Ways::move, 0.3);
    ASSERT_TRUE(planned.plan) << layers << ": " << planned.message;
    EXPECT_EQ(planned.plan->cost, planned.keep_all_cost);
  }
}

TEST(PlanWith, WhereLanesAreSlowItRerunsInstead) {
  const Graph graph = chain_graph(12);
  const Bytes budget = share_of_peak(graph, 0.6);
  const Planned both = plan(graph, budget, {kSlow, {}}, Ways::both);
  const Planned rerun = plan(graph, budget, {kSlow, {}}, Ways::rerun);
  ASSERT_TRUE(both.plan && rerun.plan);
  EXPECT_FALSE(moves(*both.plan));
  EXPECT_EQ(both.plan->cost, rerun.plan->cost);
}

TEST(PlanWith, EachWayDoesOnlyWhatItMay) {
  const Graph graph = chain_graph(12);
  const Bytes budget = share_of_peak(graph, 0.6);
  const Slower slower{{.out = {0.1, 1e-3}, .in = {0.1, 1e-3}}, {}};
  const Planned move = plan(graph, budget, slower, Ways::move);
  const Planned rerun = plan(graph, budget, slower, Ways::rerun);
  ASSERT_TRUE(move.plan && rerun.plan);
  EXPECT_FALSE(reruns(*move.plan));
  EXPECT_FALSE(moves(*rerun.plan));
  EXPECT_EQ(move.plan->strategy, "offload");
}

/// The certificate is accepted for the plan, and says what the plan says.
void expect_proved(const Graph& graph, const Planned& planned) {
  ASSERT_TRUE(planned.certificate);
  ASSERT_TRUE(planned.certificate->moves);
  const auto verdict = certify::certify(graph, *planned.plan, *planned.certificate);
  ASSERT_TRUE(testing::is_accepted(verdict));
  const auto& certified = std::get<certify::Certified>(verdict);
  EXPECT_LE(*planned.plan->lower_bound, certified.proved * (1 + 1e-9));
  EXPECT_LE(*planned.plan->lower_bound, planned.plan->cost * (1 + 1e-9));
  EXPECT_TRUE(certified.any_order || certified.keeps_order);
}

TEST(PlanWith, BoundsAreForPlansThatMayMove) {
  const Graph graph = chain_graph(12);
  const Bytes budget = share_of_peak(graph, 0.6);
  for (const Lanes& lanes : {kFast, kSlow, Lanes{}}) {
    const Planned both = plan(graph, budget, {lanes, {}}, Ways::both);
    ASSERT_TRUE(both.plan);
    expect_proved(graph, both);
  }
  const Planned reruns = plan(graph, budget, {kSlow, {}}, Ways::rerun);
  EXPECT_FALSE(reruns.certificate->moves);
}

TEST(PlanWith, ABoundSaysMoreThanThatEachOpRunsOnce) {
  const Graph graph = chain_graph(12);
  const Lanes lanes{.out = {0, 0.01}, .in = {0, 0.01}};
  const Planned both = plan(graph, share_of_peak(graph, 0.5), {lanes, {}}, Ways::both, 1);
  ASSERT_TRUE(both.plan);
  EXPECT_GT(*both.plan->lower_bound, both.keep_all_cost * 1.01);
}

TEST(PlanWith, WithoutSlowerMemoryNothingMoves) {
  const Graph graph = chain_graph(12);
  const Planned both = plan(graph, share_of_peak(graph, 0.6), {kFast, 0}, Ways::both);
  ASSERT_TRUE(both.plan) << both.message;
  EXPECT_FALSE(moves(*both.plan));
}

TEST(PlanWith, SmallValuesMoveToLittleSlowerMemory) {
  const Graph graph = chain_graph(12);
  const Slower slower{kFast, 5 * kCopyAlignment};
  const Planned planned = plan(graph, share_of_peak(graph, 0.8), slower, Ways::move);
  ASSERT_TRUE(planned.plan) << planned.message;
  EXPECT_TRUE(moves(*planned.plan));
  EXPECT_LE(planned.plan->slower->bytes, slower.bytes);
}

/// The outputs of the last ops are held, and the program needs as much as the step had.
TEST(PlanWith, WhatFollowsTheStepIsWithinTheBudget) {
  const Graph chain = chain_graph(12);
  const Bytes budget = share_of_peak(chain, 0.6);
  int found = 0;
  for (Bytes after : {budget / 2, budget - 2048, budget}) {
    const Graph graph = with_after_bytes(chain, after);
    for (Ways ways : {Ways::move, Ways::both, Ways::save_on_cpu, Ways::capuchin}) {
      const Planned planned = plan(graph, budget, {kFast, {}}, ways);
      if (!planned.plan) continue;
      ++found;
      EXPECT_LE(layout::needed_bytes(graph, *planned.plan), budget) << after;
    }
  }
  EXPECT_GT(found, 3);
}

TEST(PlanWith, ARefusalSaysWhy) {
  const Graph graph = chain_graph(12);
  for (Ways ways : {Ways::rerun, Ways::move, Ways::both}) {
    Control control = Control::by_work(0.05);
    const Planned planned = plan_with(graph, 2000, {kFast, {}}, ways, control, 512);
    EXPECT_FALSE(planned.plan);
    EXPECT_EQ(planned.outcome, Outcome::infeasible);
    EXPECT_EQ(planned.budget_bytes, 2000);
    EXPECT_EQ(planned.reserved_bytes, 512);
    EXPECT_GT(planned.keep_all_cost, 0);
    const Bytes floor = structural_floor(graph).bytes + 512;
    EXPECT_THAT(planned.message,
                AllOf(HasSubstr("infeasible: "), HasSubstr(fmt::format("({} bytes)", floor))));
  }
}

TEST(PlanWith, StoppedBeforeItBeginsItSaysSo) {
  const Graph graph = chain_graph(12);
  for (Ways ways : {Ways::rerun, Ways::move, Ways::both}) {
    Control::request_stop();
    const Planned planned = plan(graph, share_of_peak(graph, 0.6), {kFast, {}}, ways);
    Control::clear_stop();
    EXPECT_EQ(planned.outcome, Outcome::stopped);
    EXPECT_FALSE(planned.plan);
    EXPECT_THAT(planned.message, HasSubstr("stopped"));
  }
}

TEST(PlanWith, ARequestEndsItWithTheBestSoFar) {
  const Graph graph = chain_graph(20);
  const Slower slower{{.out = {0.5, 1e-3}, .in = {0.5, 1e-3}}, {}};
  Control control(0, [](const std::string& message) {
    if (message.starts_with("with slower memory: overhead")) Control::request_stop();
  });
  const Planned planned = plan_with(graph, share_of_peak(graph, 0.5), slower, Ways::both, control);
  Control::clear_stop();
  ASSERT_TRUE(planned.plan);
  EXPECT_TRUE(moves(*planned.plan));
}

constexpr Lanes kSteady{.out = {0.01, 5e-4}, .in = {0.01, 5e-4}};

TEST(PlanWithResidents, AModelLargerThanTheBudgetIsTrained) {
  const Graph graph = trained_chain(10);
  const Bytes budget = graph.resident_bytes() / 2;
  EXPECT_FALSE(plan(graph, budget, {kSteady, {}}, Ways::both).plan);
  for (Ways ways : {Ways::move, Ways::both}) {
    const Planned planned = plan(graph, budget, {kSteady, {}, /*residents=*/true}, ways, 0.3);
    ASSERT_TRUE(planned.plan) << planned.message;
    EXPECT_TRUE(testing::is_valid_plan(graph, *planned.plan, budget));
    EXPECT_FALSE(planned.plan->slower->residents.empty());
    EXPECT_LT(planned.overhead(), 0.1);
    expect_proved(graph, planned);
    EXPECT_TRUE(planned.certificate->moves->residents);
  }
}

TEST(PlanWithResidents, WhatTheMomentumTakesIsNoMatterWhereLanesAreFast) {
  const Graph graph = trained_chain(10);
  const Bytes budget = keep_all_reference(graph).peak_bytes - 6 * 4096;
  const Planned planned = plan(graph, budget, {kSteady, {}, /*residents=*/true}, Ways::move);
  ASSERT_TRUE(planned.plan) << planned.message;
  EXPECT_LT(planned.overhead(), 0.01);
}

TEST(PlanWithResidents, NoneMoveWhereAllFits) {
  const Graph graph = trained_chain(6);
  const Planned planned =
      plan(graph, share_of_peak(graph, 1), {kFast, {}, /*residents=*/true}, Ways::both);
  ASSERT_TRUE(planned.plan);
  EXPECT_FALSE(planned.plan->slower);
  EXPECT_EQ(planned.plan->cost, planned.keep_all_cost);
}

TEST(PlanWithResidents, NoneMoveToNoSlowerMemoryOrWithReruns) {
  const Graph graph = trained_chain(6);
  const Bytes budget = graph.resident_bytes() - 1;
  EXPECT_FALSE(plan(graph, budget, {kFast, 0, /*residents=*/true}, Ways::both).plan);
  EXPECT_FALSE(plan(graph, budget, {kFast, {}, /*residents=*/true}, Ways::rerun).plan);
}

TEST(PlanWithResidents, ARefusalNamesTheFloorWithoutThem) {
  const Graph graph = trained_chain(6);
  const Planned planned = plan(graph, 1000, {kFast, {}, /*residents=*/true}, Ways::both);
  EXPECT_FALSE(planned.plan);
  const Bytes floor = 512 + 3 * 4096;  // x, and what an update needs
  EXPECT_EQ(planned.floor_bytes, floor);
  EXPECT_THAT(planned.message, HasSubstr(fmt::format("({} bytes)", floor)));
}

/// A graph, its slower memory and a budget.
struct Problem {
  Graph graph;
  Slower slower;
  Bytes budget;
};

Graph draw_graph(std::uint64_t seed) {
  switch (seed % 3) {
    case 0: return testing::random_step(seed, 10, 8);
    case 1: return chain_graph(4 + static_cast<int>(seed % 9));
    default: return testing::random_graph(seed, {.ops = 24});
  }
}

/// With parameters and optimizer state.
Graph draw_graph_with_residents(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto some = [&](int most) { return 1 + static_cast<int>(random() % most); };
  return seed % 2 == 0 ? trained_chain(1 + some(8), 512 * some(9), 512 * some(5))
                       : testing::random_graph(seed, {.ops = 24});
}

Problem draw_problem(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  Graph graph = draw_graph(seed);
  Slower slower{testing::some_lanes(seed), {}};
  if (random() % 2 == 0) slower.bytes = static_cast<Bytes>(random() % 8) * kCopyAlignment;
  const Bytes budget = share_of_peak(graph, 0.4 + 0.1 * static_cast<double>(random() % 6));
  return {std::move(graph), slower, budget};
}

void expect_within_limits(const Plan& plan, const Problem& problem) {
  EXPECT_EQ(plan.budget_bytes, problem.budget);
  EXPECT_LE(plan.layout->arena_bytes, problem.budget);
  const Bytes moved = plan.slower ? plan.slower->bytes : 0;
  EXPECT_LE(moved, problem.slower.bytes.value_or(moved));
}

double cost(const Planned& planned) {
  return planned.plan ? planned.plan->cost : std::numeric_limits<double>::infinity();
}

TEST(PlanWithProperty, PlansAreValidWithinTheirLimitsAndBothWaysAreNoWorseThanOne) {
  std::deque<Problem> all;
  std::deque<Plan> plans;
  std::vector<testing::PlanCase> cases;
  int moving = 0;
  for (std::uint64_t seed = 0; seed < testing::sweep(240u, 18u); ++seed) {
    SCOPED_TRACE(seed);
    const Problem& problem = all.emplace_back(draw_problem(seed));
    std::map<Ways, double> costs;
    for (Ways ways : {Ways::rerun, Ways::move, Ways::both}) {
      Planned planned = plan(problem.graph, problem.budget, problem.slower, ways);
      EXPECT_TRUE(planned.repeatable);
      EXPECT_TRUE(planned.plan || !planned.message.empty());
      costs[ways] = cost(planned);
      if (!planned.plan) continue;
      expect_within_limits(*planned.plan, problem);
      if (ways != Ways::rerun) expect_proved(problem.graph, planned);
      moving += moves(*planned.plan);
      cases.push_back({&problem.graph, &plans.emplace_back(std::move(*planned.plan))});
    }
    EXPECT_LE(costs[Ways::both], costs[Ways::rerun]);
    EXPECT_LE(costs[Ways::both], costs[Ways::move]);
  }
  EXPECT_GT(moving, 5);
  EXPECT_TRUE(testing::are_valid_plans(cases));
}

TEST(PlanWithProperty, ALongerLimitGivesNoWorsePlan) {
  int better = 0;
  for (std::uint64_t seed = 0; seed < testing::sweep(30u, 4u); ++seed) {
    SCOPED_TRACE(seed);
    const Graph graph = testing::random_step(seed, 60, 50);
    const Slower slower{testing::some_lanes(seed), {}};
    const Bytes budget = share_of_peak(graph, 0.5);
    double before = std::numeric_limits<double>::infinity();
    for (double seconds : {0.05, 0.2, 0.8}) {
      Control control = Control::by_work(seconds);
      const double now = cost(plan_with(graph, budget, slower, Ways::move, control));
      EXPECT_LE(now, before);
      better += now < before && std::isfinite(before);
      before = now;
    }
  }
  EXPECT_GT(better, 0);
}

TEST(PlanWithResidentsProperty, PlansAreValidWithinTheirLimitsAndNoWorseThanWithout) {
  std::deque<Graph> graphs;
  std::deque<Plan> plans;
  std::vector<testing::PlanCase> cases;
  int moving = 0, better = 0;
  for (std::uint64_t seed = 0; seed < testing::sweep(200u, 16u); ++seed) {
    SCOPED_TRACE(seed);
    const Graph& graph = graphs.emplace_back(draw_graph_with_residents(seed));
    std::mt19937_64 random(seed);
    Problem problem{graph, {testing::some_lanes(seed), {}}, 0};
    problem.budget = share_of_peak(graph, 0.3 + 0.1 * static_cast<double>(random() % 7));
    if (random() % 3 == 0) problem.slower.bytes = static_cast<Bytes>(random() % 24) * 4096;
    const Ways ways = random() % 2 == 0 ? Ways::move : Ways::both;
    const Planned without = plan(graph, problem.budget, problem.slower, ways);
    problem.slower.residents = true;
    Planned with = plan(graph, problem.budget, problem.slower, ways);
    EXPECT_LE(cost(with), cost(without));
    better += cost(with) < cost(without);
    if (!with.plan) continue;
    expect_within_limits(*with.plan, problem);
    expect_proved(graph, with);
    moving += with.plan->slower && !with.plan->slower->residents.empty();
    cases.push_back({&graph, &plans.emplace_back(std::move(*with.plan))});
  }
  EXPECT_GT(moving, 2);
  EXPECT_GT(better, 2);
  EXPECT_TRUE(testing::are_valid_plans(cases));
}

}  // namespace
}  // namespace lowtide::offload
