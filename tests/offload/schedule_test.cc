#include "offload/schedule.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <deque>
#include <optional>
#include <random>
#include <span>
#include <vector>

#include "layout/layout.h"
#include "plan/in_place.h"
#include "plan/lower.h"
#include "plan/replay.h"
#include "plan/verify.h"
#include "planner/planner.h"
#include "support/ask.h"
#include "support/check_plan.h"
#include "support/random_moves.h"
#include "support/sweep.h"

namespace lowtide::offload {
namespace {

using testing::RandomMoves;
using testing::some_lanes;

/// Of the ops that the plan runs, in their order.
double cost_of_ops(const Graph& graph, const Plan& plan) {
  double cost = 0;
  for (const Action& action : plan.actions) {
    if (action.verb == Verb::run) cost += graph.op(action.index).cost;
  }
  return cost;
}

std::vector<int> counts(const Graph& graph, const Plan& plan, Verb verb) {
  std::vector<int> result(graph.num_tensors());
  for (const Action& action : plan.actions) {
    if (action.verb == verb) ++result[action.index];
  }
  return result;
}

/// How often the plan with loads loads each storage.
std::vector<int> loads_of(const RandomMoves& moves) {
  std::vector<int> result(moves.graph.num_tensors());
  for (const Action& action : moves.plan.actions) {
    if (action.verb != Verb::run) continue;
    if (const TensorId id = moves.loads.loaded[action.index]; id != kNone) ++result[id];
  }
  return result;
}

/// Only what comes back leaves, once; and the load that an op is followed by needs no copy.
void expect_few_copies(const RandomMoves& moves, const Plan& plan) {
  const std::vector<int> out = counts(moves.graph, plan, Verb::offload);
  const std::vector<int> in = counts(moves.graph, plan, Verb::prefetch);
  const std::vector<int> loads = loads_of(moves);
  for (TensorId id = 0; id < moves.graph.num_tensors(); ++id) {
    EXPECT_LE(out[id], 1);
    EXPECT_LE(in[id], loads[id]);
    EXPECT_EQ(in[id] > 0 ? 1 : 0, out[id]);
  }
}

struct Drawn {
  Lanes lanes;
  Bytes budget;
  double hurry;
};

Drawn draw(std::uint64_t seed, Bytes peak) {
  constexpr double kHurries[] = {1, 1.2, 5, 20};
  std::mt19937_64 random(seed);
  const Bytes budget = peak + peak * static_cast<Bytes>(random() % 4) / 10;
  return {some_lanes(seed), budget, kHurries[random() % std::size(kHurries)]};
}

TEST(ScheduleProperty, PlansAreValidWithinTheirMemoryAndCopyLittle) {
  std::deque<Graph> graphs;
  std::deque<Plan> plans;
  std::vector<testing::PlanCase> cases;
  int copies = 0;
  for (std::uint64_t seed = 0; seed < testing::sweep(4000u, 400u); ++seed) {
    SCOPED_TRACE(seed);
    const RandomMoves moves(seed, {.ops = 8 + static_cast<int>(seed % 40)});
    const Bytes peak = moves.instant().peak_bytes;
    const Drawn drawn = draw(seed, peak);
    Plan plan = moves.scheduled(drawn.lanes, drawn.budget, drawn.hurry);
    EXPECT_LE(plan.peak_bytes, drawn.budget);
    EXPECT_LE(moves.scheduled(drawn.lanes, 0, drawn.hurry).peak_bytes, peak);
    EXPECT_GE(plan.cost, cost_of_ops(moves.graph, plan));
    expect_few_copies(moves, plan);
    plan.layout = layout::assign_addresses(moves.graph, plan);
    const auto violation = verify(moves.graph, plan);
    EXPECT_FALSE(violation) << violation->action << ": " << violation->message;
    if (plan.slower) copies += static_cast<int>(plan.slower->copies.size());
    cases.push_back({&graphs.emplace_back(moves.graph), &plans.emplace_back(std::move(plan))});
  }
  EXPECT_GT(copies, 400);
  EXPECT_TRUE(testing::are_valid_plans(cases));
}

/// Each resident that moves comes in as often as it is loaded, and goes out when it was written.
void expect_copies_of_residents(const RandomMoves& moves, const Plan& plan, int& written) {
  const std::vector<int> out = counts(moves.graph, plan, Verb::offload);
  const std::vector<int> in = counts(moves.graph, plan, Verb::prefetch);
  const std::vector<int> loads = loads_of(moves);
  for (TensorId id : loaded_residents(moves.graph, moves.loads)) {
    EXPECT_GE(in[id], 1);
    EXPECT_LE(in[id], loads[id]);
    const bool is_written = std::ranges::any_of(moves.graph.ops(), [&](const Op& op) {
      return std::ranges::any_of(op.mutates,
                                 [&](int at) { return moves.graph.storage(op.inputs[at]) == id; });
    });
    EXPECT_EQ(out[id], is_written ? 1 : 0);
    written += is_written;
  }
}

TEST(ScheduleProperty, ResidentsMoveInValidPlansAndGoOutWhenTheyWereWritten) {
  std::deque<Graph> graphs;
  std::deque<Plan> plans;
  std::vector<testing::PlanCase> cases;
  int written = 0, moving = 0;
  for (std::uint64_t seed = 0; seed < testing::sweep(3000u, 300u); ++seed) {
    SCOPED_TRACE(seed);
    const RandomMoves moves(seed, {.ops = 8 + static_cast<int>(seed % 40)},
                            testing::Movers::residents_too);
    const Bytes peak = moves.instant().peak_bytes;
    const Drawn drawn = draw(seed, peak);
    Plan plan = moves.scheduled(drawn.lanes, drawn.budget, drawn.hurry);
    EXPECT_LE(plan.peak_bytes, drawn.budget);
    expect_copies_of_residents(moves, plan, written);
    plan.layout = layout::assign_addresses(moves.graph, plan);
    const auto violation = verify(moves.graph, plan);
    EXPECT_FALSE(violation) << violation->action << ": " << violation->message;
    if (plan.slower) moving += static_cast<int>(plan.slower->residents.size());
    cases.push_back({&graphs.emplace_back(moves.graph), &plans.emplace_back(std::move(plan))});
  }
  EXPECT_GT(moving, 100);
  EXPECT_GT(written, 20);
  EXPECT_TRUE(testing::are_valid_plans(cases));
}

TEST(ScheduleProperty, LanesThatTakeNoTimeCostNothing) {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE(seed);
    const RandomMoves moves(seed);
    const Plan plan = moves.scheduled({}, moves.plan.peak_bytes, 2);
    EXPECT_DOUBLE_EQ(plan.cost, cost_of_ops(moves.graph, plan));
  }
}

/// The same actions, with lanes that take longer for each copy.
TEST(ScheduleProperty, SlowerLanesNeverMakeAPlanCheaper) {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE(seed);
    const RandomMoves moves(seed);
    const Drawn drawn = draw(seed, moves.instant().peak_bytes);
    const Plan plan = moves.scheduled(drawn.lanes, drawn.budget, drawn.hurry);
    for (Lane Lanes::* lane : {&Lanes::out, &Lanes::in}) {
      Lanes slower = drawn.lanes;
      (slower.*lane).latency += 3;
      (slower.*lane).per_byte *= 2;
      EXPECT_GE(with_copies(moves.graph, plan, {slower}).cost, plan.cost);
    }
  }
}

TEST(ScheduleProperty, WaitsAreWhatThePlanTakesBesideItsOps) {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE(seed);
    const RandomMoves moves(seed);
    const Drawn drawn = draw(seed, moves.instant().peak_bytes);
    const Plan plan = moves.scheduled(drawn.lanes, drawn.budget, drawn.hurry);
    double waited = 0;
    for (double one : replay(moves.graph, plan).waited) waited += one;
    EXPECT_NEAR(plan.cost, cost_of_ops(moves.graph, plan) + waited, 1e-9 * plan.cost);
  }
}

/// An op may overwrite a value that leaves: not while its copy is under way, if there is room
/// beside it.
TEST(Schedule, NoOpWaitsToOverwriteAValueWhereThereIsRoomBesideIt) {
  using testing::op;
  using testing::value;
  GraphData data;
  data.name = "overwritten";
  for (const char* name : {"a", "b", "c", "d", "e"}) data.tensors.push_back(value(name, 100));
  data.ops = {op("make", {}, {0}), op("relu", {0}, {1}), op("long", {1}, {2}, 100),
              op("longer", {2}, {3}, 200), op("use", {3, 0}, {4})};
  data.ops[1].inplace = {{0, 0}};
  data.outputs = {4};
  const Graph graph(std::move(data));
  std::vector<std::optional<double>> prices(graph.tensors().size());
  prices[0] = 0;
  const LoadGraph loads = with_loads(graph, prices);
  std::vector<OpId> order;
  const auto add = [&](OpId original) {
    order.push_back(
        static_cast<OpId>(std::ranges::find(loads.original, original) - loads.original.begin()));
  };
  const OpId load = static_cast<OpId>(std::ranges::find(loads.loaded, 0) - loads.loaded.begin());
  add(0), order.push_back(load), add(1), add(2), add(3), order.push_back(load), add(4);
  const Plan plan = with_in_place(loads.graph, lower(loads.graph, order));
  const Lanes lanes{.out = {0, 0.5}, .in = {0, 0.5}};
  const double hurry = 2;
  const auto cost_within = [&](Bytes budget) {
    return schedule(graph, loads, plan, {lanes}, budget, std::span(&hurry, 1)).cost;
  };
  constexpr double kOps = 303, kCopy = 50;
  EXPECT_DOUBLE_EQ(cost_within(300), kOps);
  EXPECT_GE(cost_within(0), kOps + kCopy);
}

/// As joint plans are made: plans of the default strategy within a share of what is needed.
TEST(ScheduleProperty, PlansOfTheDefaultStrategyBecomeValidPlansThatMove) {
  int moving = 0;
  for (std::uint64_t seed = 0; seed < 24; ++seed) {
    SCOPED_TRACE(seed);
    const Graph graph = seed % 2 == 0 ? testing::random_step(seed, 12, 10)
                                      : testing::random_graph(seed, {.ops = 24});
    const LoadGraph loads = with_loads(graph, testing::some_prices(graph, seed));
    Control control = Control::by_work(0.05);
    const planner::Planned found = planner::plan_within(
        loads.graph, strategy::default_strategy(), testing::share_of_peak(graph, 0.8), {}, control);
    if (!found.plan) continue;
    const Plan instant = schedule(graph, loads, *found.plan, {}, 0, std::array{1.0});
    const Drawn drawn = draw(seed, instant.peak_bytes);
    Plan plan = schedule(graph, loads, *found.plan, {drawn.lanes}, drawn.budget,
                         std::span(&drawn.hurry, 1));
    EXPECT_LE(plan.peak_bytes, drawn.budget);
    plan.layout = layout::assign_addresses(graph, plan);
    const auto violation = verify(graph, plan);
    EXPECT_FALSE(violation) << violation->action << ": " << violation->message;
    moving += plan.slower.has_value();
  }
  EXPECT_GT(moving, 4);
}

}  // namespace
}  // namespace lowtide::offload
